"""Networks trained as a group: alone where nobody teaches, else steps against plain torch, written out by hand."""

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.data import DataConfig
from smallgroup.data.config import AugmentationConfig
from smallgroup.data.training_data import TrainingData, Views, open_group_data, open_training_data
from smallgroup.group import Phase
from smallgroup.group.errors import NonFiniteError
from smallgroup.phases.training import MutualJob, Peers, TrainingConfig, TrainingJob
from smallgroup.phases.training.group_config import GroupConfig
from smallgroup.phases.training.group_job import GroupJob
from smallgroup.spaces.config import NetworkConfig
from tests.configs import FULL_SIZE, training_config
from tests.phases.training.models import BENCHMARK, DARTS

SMALL = NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="none")
OWN = AugmentationConfig()


def options(**changes: Any) -> TrainingConfig:
    given = {"epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "network": SMALL, "validation": 0.1, "drop_path": 0.3}
    return training_config(**{**given, **changes})


def data_of(config: TrainingConfig, unlabeled: str = "split") -> TrainingData:
    own = config.group
    assert own is not None
    views = Views(own.weak, own.strong) if own.teaching.active else None
    return open_group_data(DataConfig(unlabeled=unlabeled), OWN, seed=1, validation=config.validation, views=views)


def job(*cells: Any, unlabeled: str = "split", group: dict[str, Any], **changes: Any) -> GroupJob:
    config = options(group={"learners": len(cells), **group}, **changes)
    return GroupJob(config, data_of(config, unlabeled), cells, seed=3)


def finish(training: Any) -> list[Any]:
    rows: list[Any] = []
    while not training.finished:
        rows += training.advance() or []
    return rows


def tensors_of(training: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in training.state()[0].items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Where nobody teaches.


@pytest.mark.parametrize("changes", [{"average": 0.9, "clip": None}, {"optimizer": "adamw", "label_smoothing": 0.1}])
def test_without_lambda_a_network_is_trained_as_alone(changes: dict[str, Any]) -> None:
    """To the bit, as long as no gradient is clipped: weights, running statistics, moments, average and metrics."""
    cell = DARTS if "average" in changes else BENCHMARK
    group, config = job(cell, BENCHMARK, unlabeled="train", group={"lambda": 0.0}, **changes), options(**changes)
    data = open_training_data(DataConfig(unlabeled="train"), OWN, seed=1, validation=config.validation)
    alone = TrainingJob(config, data, cell, seed=3)
    rows, own = finish(group), finish(alone)
    found = tensors_of(group)
    assert all(torch.equal(tensor, found[f"0.{name}"]) for name, tensor in tensors_of(alone).items())
    first = [row for row in rows if row["learner"] == 0]
    assert [{name: one[name] for name in other} for one, other in zip(first, own, strict=True)] == own
    assert not group.taught[0].v


# By hand.


def by_hand(twin: GroupJob, steps: int, clip: float = 0.5) -> Sequence[nn.Module]:
    """The networks W after some steps of plain torch; `twin` gives initial weights, batches and settings alone."""
    own, networks, teachers = twin.own, [], []
    for trainee in twin.taught:
        networks.append(trainee.network.train())
        teacher = copy.deepcopy(trainee.network)
        teacher.load_state_dict(trainee.v, strict=False)
        teachers.append(teacher)
    made = [torch.optim.SGD(n.parameters(), lr=0.2, momentum=0.9, weight_decay=3e-4) for n in (*networks, *teachers)]
    assert twin._unlabeled is not None

    def step_on(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()

    for step in range(steps):
        (x, y), u = twin.batches.batch(step), twin._unlabeled.batch(step)
        lam = own.lam * min(1.0, (step + 1) / max(1, round(own.lambda_ramp * twin.steps)))
        labels = []
        for network, teacher, optimizer in zip(networks, teachers, made[len(networks) :], strict=True):
            if own.labels_from == "v":
                step_on(teacher, optimizer, functional.cross_entropy(teacher(x), y, label_smoothing=0.1))
            with torch.no_grad():
                p = copy.deepcopy(teacher if own.labels_from == "v" else network)(u["weak"]).softmax(dim=1)
            sharp = p ** (1 / own.temperature)
            sure = p.amax(dim=1, keepdim=True) >= own.confidence
            assert not own.confidence or 0 < int(sure.sum()) < len(sure)
            labels.append(sharp / sharp.sum(dim=1, keepdim=True) * sure)
        for k, (network, optimizer) in enumerate(zip(networks, made, strict=False)):
            of = [k] if own.targets == "own" else [j for j in range(len(networks)) if j != k]
            target = torch.stack([labels[j] for j in of]).sum(dim=0)
            loss = functional.cross_entropy(network(x), y, label_smoothing=0.1)
            apart = copy.deepcopy(network)  # statistics of the strong view are thrown away, its gradient is not
            logits = torch.func.functional_call(apart, dict(network.named_parameters()), (u["strong"],))
            taught = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
            step_on(network, optimizer, loss + lam * taught)
    return networks


@pytest.mark.parametrize(
    ("cells", "group"),
    [
        ((BENCHMARK, BENCHMARK, BENCHMARK), {"lambda": 0.7, "lambda_ramp": 0.75, "temperature": 0.5}),
        ((BENCHMARK,), {"targets": "own", "labels_from": "w", "lambda": 0.8, "lambda_ramp": 0, "confidence": 0.15}),
    ],
    ids=["the paper's first two stages", "self-taught with pseudo-labels"],
)
def test_steps_are_those_of_plain_torch(cells: tuple[Any, ...], group: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"label_smoothing": 0.1, "clip": 0.5, "lr": 0.2, "schedule": "constant"}
    mine, twin = (job(*cells, group=group, **settings) for _ in range(2))
    start = [p.detach().clone() for p in twin.taught[0].network.parameters()]
    for _ in range(3):
        mine.advance()
    for trainee, network in zip(mine.taught, by_hand(twin, 3), strict=True):
        for (name, one), (_, other) in zip(
            trainee.network.state_dict().items(), network.state_dict().items(), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5, msg=name)
    moved = [
        float((p.detach() - q).abs().max()) for p, q in zip(mine.taught[0].network.parameters(), start, strict=True)
    ]
    assert max(moved) > 0.01


def test_deep_mutual_learning_is_a_setting() -> None:
    """Its own job divides the divergence by the number of peers; W is what both train."""
    cells = (BENCHMARK, DARTS, BENCHMARK)
    settings: dict[str, Any] = {"lr": 0.2, "clip": 0.5, "label_smoothing": 0.1, "drop_path": 0.0}
    group = {"learned_on": "labeled", "labels_from": "w", "lambda": 0.8 / 2, "lambda_ramp": 0}
    config = options(group={"learners": 3, **group}, **settings)
    data = open_training_data(DataConfig(), OWN, seed=1, validation=config.validation)
    mine, other = GroupJob(config, data, cells, seed=3), MutualJob(config, data, Peers(cells, 0.8), seed=3)
    untaught = MutualJob(config, data, Peers(cells, 0.0), seed=3)
    for _ in range(3):
        for each in (mine, other, untaught):
            each.advance()
    weights = [[dict(one.network.state_dict()) for one in each.trainees] for each in (mine, other, untaught)]
    for found, expected, alone in zip(*weights, strict=True):
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, expected[name], rtol=1e-3, atol=1e-5, msg=name)
        assert max(float((found[name] - alone[name]).abs().max()) for name in found) > 1e-3


# What a phase sees.


def test_labels_are_made_of_the_weak_view_and_learned_on_the_strong_one() -> None:
    training = job(DARTS, BENCHMARK, group={})
    apply, trainee = training.taught[0].apply, training.taught[0]
    trainee.begin(1)  # with drop path
    weak, strong = (torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    broken, before = torch.full_like(weak, float("nan")), copy.deepcopy(dict(trainee.network.named_buffers()))
    pairs: list[tuple[Phase, Any]] = [("label", (weak, broken)), ("w_unlabeled", (broken, strong))]
    for phase, views in pairs:
        found = apply(trainee.learner.w, {}, dict(zip(("weak", "strong"), views, strict=True)), phase=phase)
        assert bool(found.isfinite().all())
        assert torch.equal(found, apply(trainee.learner.w, {}, {"weak": weak, "strong": strong}, phase=phase))
    assert same(before, dict(trainee.network.named_buffers()))
    # Only labels are made without drop path; every phase draws its own.
    passes = {phase: apply(trainee.learner.w, {}, weak, phase=phase) for phase in ("v", "w_unlabeled", "label", "w")}
    assert not any(torch.equal(passes["w"], passes[phase]) for phase in ("v", "w_unlabeled", "label"))
    assert not same(before, dict(trainee.network.named_buffers()))
    assert trainee.network.drop_path == pytest.approx(0.15)
    trainee.network.drop_path = 0.0
    assert torch.equal(passes["label"], apply(trainee.learner.w, {}, weak, phase="label"))
    assert not torch.equal(passes["v"], apply(trainee.learner.w, {}, weak, phase="v"))


def test_both_views_are_of_the_same_images() -> None:
    config = options(group={"weak": {"crop_padding": 0, "flip": False}, "strong": {"crop_padding": 0, "flip": False}})
    data = data_of(config)
    assert data.unlabeled is not None
    assert (data.unlabeled.weak.cutout, data.unlabeled.strong.cutout) == (0, 4)
    assert (data.unlabeled.weak.color_jitter, data.unlabeled.strong.color_jitter) == (False, True)
    weak, strong = (data.unlabeled.stream(view, 8, 3, mean=[0.0], std=[1.0]) for view in ("weak", "strong"))
    for step in (0, 70):
        assert torch.equal(weak.indices_of(step), strong.indices_of(step))
        assert torch.equal(strong.batch(step), strong.batch(step))
        assert not torch.equal(weak.batch(step), strong.batch(step))
    same_draws = (data.unlabeled.stream(view, 8, 3, mean=[0.0], std=[1.0])._key(0) for view in ("weak", "strong"))
    assert len(set(same_draws)) == 2


def test_labels_of_the_split_are_not_used() -> None:
    data = data_of(options(group={}))
    assert data.hidden is not None
    assert data.unlabeled is not None
    assert data.validation is not None
    parts = [set(part.tolist()) for part in (data.trained, data.hidden, data.validation)]
    assert not any(one & other for one, other in itertools.combinations(parts, 2))
    assert set(data.unlabeled.indices.tolist()) == parts[1]
    assert sum(map(len, parts)) == len(data.dataset.train)
    again = data_of(options(group={}), "train")
    assert again.unlabeled is not None
    assert torch.equal(again.unlabeled.indices, again.trained)


@pytest.mark.parametrize(
    ("ramp", "expected"), [(0.0, [2.0] * 4), (0.5, [1.0, 2.0, 2.0, 2.0]), (1.0, [0.5, 1.0, 1.5, 2.0])]
)
def test_lambda_rises(ramp: float, expected: list[float]) -> None:
    own = GroupConfig.model_validate({"lambda": 2.0, "lambda_ramp": ramp})
    assert [own.lam_at(step, 4) for step in range(4)] == pytest.approx(expected)


def test_lambda_of_the_steps_is_that_of_the_schedule() -> None:
    training, seen = job(BENCHMARK, BENCHMARK, group={"lambda": 2.0, "lambda_ramp": 1.0}), []
    while not training.finished:
        training.advance()
        seen.append(training.group.lam)
    assert seen == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_passes_are_counted() -> None:
    """V and W forward and backward, labels forward, the strong view forward and backward: 10 passes per image."""
    assert GroupConfig(learners=3).passes(8) == 3 * 10 * 8
    assert GroupConfig(learners=3, batch_size=16).passes(8) == 3 * (6 * 8 + 4 * 16)
    assert GroupConfig(learners=2, labels_from="w").passes(8) == 2 * 7 * 8
    assert GroupConfig.model_validate({"learners": 2, "lambda": 0}).passes(8) == 2 * 3 * 8
    assert GroupConfig(learners=1, targets="own").passes(8) == 10 * 8


# The state, and failure.


def test_a_resumed_group_has_the_bits_of_an_uninterrupted_one() -> None:
    settings: dict[str, Any] = {"group": {}, "average": 0.9, "optimizer": "adamw", "label_smoothing": 0.1}
    whole, first, second = (job(DARTS, BENCHMARK, **settings) for _ in range(3))
    rows = finish(whole)
    for _ in range(3):
        first.advance()
    second.load_state(tensors_of(first), first.state()[1])
    assert finish(second) == rows[2:]
    assert same(tensors_of(second), tensors_of(whole))
    assert any(name.startswith("1.v.exp_avg") for name in tensors_of(whole))


@pytest.mark.parametrize("whose", ["v", "w"])
def test_what_is_not_finite_changes_nothing(whose: str) -> None:
    training = job(BENCHMARK, BENCHMARK, group={})
    training.advance()
    weights = training.taught[1].v if whose == "v" else dict(training.taught[1].network.named_parameters())
    weights["classifier.bias"].data[0] = float("inf")
    before = tensors_of(training)
    with pytest.raises(NonFiniteError, match="of learner 1 is not finite"):
        training.advance()
    assert same(before, tensors_of(training))
    assert training.step == 1
    assert training.leave_out()
    assert training.step == 2


def test_a_head_is_left_out() -> None:
    head = NetworkConfig(**FULL_SIZE, channels=4, cells=3, auxiliary="two-norms")
    assert job(DARTS, DARTS, group={}, network=SMALL).taught[0].has_left_out_head is False
    with_head = job(DARTS, DARTS, group={}, network=head)
    assert with_head.taught[0].has_left_out_head
    assert not any("auxiliary" in name for name in with_head.taught[0].learner.w)
    with_head.advance()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"validation": 0.0}, "validation must be above 0 where several networks are trained"),
        ({"accumulate": 2}, "accumulate must be 1 where a group is trained, but it is 2"),
        ({"precision": "float16"}, "precision must be float32 or bfloat16 where a group is trained"),
        ({"group": {"targets": "uniform", "labels_from": "w"}}, "targets uniform uses no labels"),
        ({"group": {"learned_on": "labeled", "batch_size": 4}}, "uses no unlabeled images, so batch_size must keep"),
        ({"group": {"learned_on": "labeled", "strong": {"flip": True}}}, "so strong must keep its default"),
    ],
)
def test_what_a_group_cannot_do_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        options(**{"group": {}, **changes})


def test_every_network_needs_a_cell() -> None:
    config = options(group={"learners": 3})
    with pytest.raises(ValueError, match="a group must have a cell per learner, but got 1 cells for 3 learners"):
        GroupJob(config, data_of(config), [BENCHMARK], seed=0)
