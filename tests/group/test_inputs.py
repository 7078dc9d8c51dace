"""Inputs that are not one tensor: they pass through the group untouched, and into modules as arguments."""

from operator import attrgetter
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from smallgroup.group import DenseClassification, Learner, ModuleApply, SmallGroup
from smallgroup.group.inputs import to_device
from tests.group.networks import make_batches, make_learners, same_bits, state_of
from tests.group.oracle import Tensors
from tests.group.tasks.cases import CASES
from tests.group.tasks.test_tasks import group_for


class Pair(NamedTuple):
    x: Tensor
    scale: float


FORMS: dict[str, tuple[Any, Any]] = {
    "dictionary": (lambda x: {"x": x, "scale": 1.0}, lambda inputs: inputs["x"] * inputs["scale"]),
    "tuple": (lambda x: (x, x), lambda inputs: inputs[0]),
    "list": (lambda x: [x, None], lambda inputs: inputs[0]),
    "named tuple": (lambda x: Pair(x, 1.0), lambda inputs: inputs.x * inputs.scale),
    "nested": (lambda x: {"images": [x, {"more": (x,)}]}, lambda inputs: inputs["images"][1]["more"][0]),
}


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_inputs_changes_no_bit(form: str, mode: Any) -> None:
    """The learners get the very objects that the group was given."""
    wrap, unwrap = FORMS[form]
    plain, wrapped = make_learners(2), make_learners(2)
    (x, y), u, (x_v, y_v) = make_batches()
    given = wrap(x), wrap(u), wrap(x_v)
    seen: list[Any] = []

    def of(learner: Learner) -> Learner:
        inner = learner.apply

        def apply(weights: Any, architecture: Any, inputs: Any, *, phase: Any = None) -> Tensor:
            seen.append(inputs)
            result: Tensor = inner(weights, architecture, unwrap(inputs), phase=phase)
            return result

        return Learner(apply, learner.architecture, learner.v, learner.w)

    expected = SmallGroup(plain, hypergradient=mode).step((x, y), u, (x_v, y_v))
    group = SmallGroup([of(learner) for learner in wrapped], hypergradient=mode)
    found = group.step((given[0], y), given[1], (given[2], y_v))
    assert same_bits(state_of(plain), state_of(wrapped))
    for one, other in zip(found.learners, expected.learners, strict=True):
        assert one.validation_loss == other.validation_loss
    assert {id(inputs) for inputs in seen} == {id(inputs) for inputs in given}


def test_inputs_move_to_the_device_of_the_learner_and_keep_their_form() -> None:
    there, here = torch.device("meta"), torch.device("cpu")
    x = torch.ones(2)
    inputs = {"x": x, "more": [x, (x, "word")], "pair": Pair(x, 2.0)}
    assert to_device(inputs, here) is inputs
    moved = to_device(inputs, there)
    assert moved["x"].device == moved["more"][0].device == moved["more"][1][0].device == moved["pair"].x.device == there
    assert (moved["more"][1][1], moved["pair"].scale, type(moved["pair"])) == ("word", 2.0, Pair)
    assert x.device == here


def test_labels_of_a_dictionary_of_inputs_are_counted_by_the_outputs() -> None:
    def apply(weights: Tensors, architecture: Tensors, inputs: Any) -> Tensor:
        return inputs["x"].flatten(1) @ weights["m"] * architecture["a"]  # type: ignore[no-any-return]

    (x, y), _, _ = make_batches()
    learner = Learner(apply, {"a": torch.ones(4).double()}, None, {"m": torch.ones(72, 4).double()})
    with pytest.raises(
        ValueError, match=r"labels must have shape \(6,\) for outputs of shape \(6, 4\), but got \(5,\)"
    ):
        SmallGroup([learner]).step(({"x": x}, y[:5]), None, None)


class Result(NamedTuple):
    logits: Tensor
    attention: None = None


class Tagger(nn.Module):
    """Takes its inputs by name or by place, drops words, and returns more than logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(7, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.drop, self.gates = nn.Dropout(0.2), nn.Parameter(torch.zeros(4))

    def forward(self, tokens: Tensor, mask: Tensor) -> Result:
        words = self.drop(self.words(tokens)) * mask.unsqueeze(2) * self.gates.sigmoid()
        return Result(self.head(self.norm(words.transpose(1, 2)).transpose(1, 2)))


def tagger(seed: int) -> Learner:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, other = Tagger().double(), Tagger().double()
    w, v = dict(module.named_parameters()), dict(other.named_parameters())
    architecture = {"gates": w.pop("gates")}
    apply = ModuleApply(module, seed=seed, output=attrgetter("logits"))
    return Learner(apply, architecture, {name: v[name] for name in w}, w)


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_a_module_takes_dictionaries_by_name_and_tuples_by_place(mode: Any) -> None:
    states = []
    for form in (dict, lambda inputs: tuple(inputs.values()), lambda inputs: list(inputs.values())):
        learners = [tagger(0), tagger(1)]
        task = DenseClassification(class_dim=-1, ignore=-1)
        group = SmallGroup(learners, task=task, hypergradient=mode, architecture_lr=0.1)
        (x, y), u, (x_v, y_v) = CASES["tokens"].batches(torch.float64, 5)
        report = group.step((form(x), y), form(u), (form(x_v), y_v))
        assert report.skipped == 0
        states.append(state_of(learners))
    assert same_bits(states[0], states[1])
    assert same_bits(states[0], states[2])


def test_a_trained_module_has_statistics_of_batches_of_any_form() -> None:
    learner = tagger(0)
    (x, y), _, _ = CASES["tokens"].batches(torch.float64, 5)
    assert isinstance(learner.apply, ModuleApply)
    trained = [
        learner.apply.trained(learner.w, learner.architecture, batches)
        for batches in ([x], [(x, y)], [(tuple(x.values()), y)])
    ]
    means = [dict(module.named_buffers())["norm.running_mean"] for module in trained]
    assert torch.equal(means[0], means[1])
    assert torch.equal(means[0], means[2])
    assert bool(means[0].any())


def test_padding_teaches_nobody() -> None:
    """Whatever stands in places that do not count: the same gradients."""
    (x, y), u, validation = CASES["tokens"].batches(torch.float64, 5)
    other = {**u, "tokens": torch.where(u["mask"], u["tokens"], 6 - u["tokens"])}
    assert not torch.equal(u["tokens"], other["tokens"])
    found = [group_for("tokens", 3).architecture_gradients((x, y), given, validation) for given in (u, other)]
    for k in range(3):
        assert same_bits(found[0][k], found[1][k])


class Recurrent(nn.Module):
    """A packed sequence is its one argument, as torch's own recurrent layers take it."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.head = nn.RNN(2, 3), nn.Linear(3, 4)
        self.gates = nn.Parameter(torch.zeros(3))

    def forward(self, sequences: PackedSequence) -> Tensor:
        _, last = self.read(sequences)
        result: Tensor = self.head(last[0] * self.gates.sigmoid())
        return result


def packed(seed: int) -> PackedSequence:
    generator = torch.Generator().manual_seed(seed)
    return pack_sequence([torch.randn(n, 2, generator=generator, dtype=torch.float64) for n in (4, 2, 1)])


def test_packed_sequences_are_inputs() -> None:
    """The same bits as with padded sequences that the module packs itself."""

    class Packs(Recurrent):
        def forward(self, padded: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(pack_padded_sequence(padded, lengths))

    states = []
    for kind, form in ((Recurrent, lambda each: each), (Packs, pad_packed_sequence)):
        learners = []
        for seed in range(2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                module, other = kind().double(), kind().double()
            w, v = dict(module.named_parameters()), dict(other.named_parameters())
            gates = {"gates": w.pop("gates")}
            learners.append(Learner(ModuleApply(module, seed=seed), gates, {name: v[name] for name in w}, w))
        x, u, x_v = (form(packed(seed)) for seed in range(3))
        y = torch.tensor([0, 1, 3])
        report = SmallGroup(learners, architecture_lr=0.1).step((x, y), u, (x_v, y))
        assert report.skipped == 0
        states.append(state_of(learners))
    assert same_bits(*states)


def test_packed_sequences_move_as_a_whole() -> None:
    """Their sizes stay on the CPU, as torch wants them."""
    sequences = packed(0)
    inputs = {"sequences": sequences}
    assert to_device(inputs, torch.device("cpu")) is inputs
    moved = to_device(inputs, torch.device("meta"))["sequences"]
    assert isinstance(moved, PackedSequence)
    assert (moved.data.device.type, moved.batch_sizes.device.type) == ("meta", "cpu")


def test_statistics_can_be_estimated_from_packed_sequences() -> None:
    class Normed(Recurrent):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, sequences: PackedSequence) -> Tensor:
            return self.norm(super().forward(sequences))  # type: ignore[no-any-return]

    module = Normed().double()
    weights = dict(module.named_parameters())
    means = []
    for batch in (packed(0), (packed(0), torch.zeros(3))):
        trained = ModuleApply(module).trained(weights, {}, [batch])
        means.append(dict(trained.named_buffers())["norm.running_mean"])
    assert torch.equal(*means)
    with torch.no_grad():
        torch.testing.assert_close(means[0], Recurrent.forward(module, packed(0)).mean(dim=0))
