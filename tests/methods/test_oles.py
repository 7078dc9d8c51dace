"""OLES: which operations it stops, and that the weights of those stay as they are."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from smallgroup.group import SmallGroup
from smallgroup.methods.oles import Oles
from smallgroup.spaces.edges import weights_of_operations
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, group_of, relaxed_of
from tests.methods.cases import started

SPACE = SmoothSpace()
X, Y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
"""Two filters without anything in common."""


def test_an_operation_stops_once_its_cosines_are_small_on_average() -> None:
    method = started(Oles(every=2, least=0.4))
    bias = torch.ones(3)
    # In turn: alike, at right angles, and at right angles in one of two filters; the bias is not looked at.
    training = [[X, bias], [X], [X, X]]
    for _ in range(2):
        assert method.frozen is None
        method.compare_gradients(training, [[3 * X, -bias], [Y], [X, Y]])
    assert method.frozen is not None
    assert method.frozen.tolist() == [False, True, False]
    assert int(method.state["compared"]) == 0
    # (1 - 0.3) / 2 is below 0.4, and what is stopped stays so, without a gradient.
    tilted = torch.tensor([[-0.3, (1 - 0.09) ** 0.5]])
    method.compare_gradients(training, [[X, bias], [None], [X, X]])
    method.compare_gradients(training, [[tilted, bias], [None], [X, X]])
    assert method.frozen.tolist() == [True, True, False]


def test_an_operation_that_took_no_part_is_judged_by_the_steps_in_which_it_did() -> None:
    method = started(Oles(every=3, least=0.4))
    for validation in (X, None, X):
        method.compare_gradients([[X], [None]], [[validation], [None]])
    assert method.frozen is not None
    assert method.frozen.tolist() == [False, False]


@pytest.mark.parametrize(("key", "value"), [("every", 0), ("least", 1.5)])
def test_options_are_checked(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=key):
        Oles(**{key: value})  # type: ignore[arg-type]


class Seeing(Oles):
    """Keeps what it is shown."""

    shown: list[tuple[list[list[Tensor]], list[list[Tensor]]]]

    def compare_gradients(self, training, validation) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        self.shown = [*getattr(self, "shown", []), (training, validation)]


@pytest.mark.parametrize("order", ["v-w-a", "a-v-w"])
def test_it_sees_the_gradients_of_both_losses_once_in_a_step(order: str) -> None:
    """In first order, where nothing else needs the gradient of the validation loss in the weights."""
    method = Seeing()
    group = group_of(SPACE, [method], hypergradient="first-order")
    (learner,) = group.learners
    (x, y), u, (x_v, y_v) = batches_for(SPACE)
    names = [name for own in weights_of_operations(relaxed_of(learner).supernet) for name in own]
    assert set(names) < learner.w.keys()  # the stem and the classifier are no operations

    def gradients(inputs: Tensor, labels: Tensor) -> list[Tensor]:
        own = {name: tensor.detach().requires_grad_() for name, tensor in learner.w.items()}
        loss = cross_entropy(learner.apply(own, learner.architecture, inputs), labels)
        return list(torch.autograd.grad(loss, [own[name] for name in names]))

    before = gradients(x, y) if order == "v-w-a" else gradients(x_v, y_v)
    architecture = {name: tensor.clone() for name, tensor in learner.architecture.items()}
    group.step((x, y), u, (x_v, y_v), order=order)  # type: ignore[arg-type]
    group.step((x, y), u, None)  # without validation there is nothing to compare
    assert len(method.shown) == 1
    training, validation = ([g for own in each for g in own] for each in method.shown[0])
    for found, expected in zip(training if order == "v-w-a" else validation, before, strict=True):
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert any(not torch.equal(t, architecture[name]) for name, t in learner.architecture.items())


def _frozen(group: SmallGroup) -> list[str]:
    """Stop every other operation; the names of their weights."""
    relaxed = relaxed_of(group.learners[0])
    operations = weights_of_operations(relaxed.supernet)
    relaxed.method.state["frozen"] = torch.arange(len(operations)) % 2 == 0
    return [name for own in operations[::2] for name in own]


def test_weights_of_stopped_operations_stay_and_the_others_learn() -> None:
    """Of W and V: an optimizer leaves alone what has no gradient."""
    group = group_of(SPACE, [Oles(), Oles()])
    learner = group.learners[0]
    group.step(*batches_for(SPACE))
    names = _frozen(group)
    before = [{name: tensor.clone() for name, tensor in tensors.items()} for tensors in (learner.w, learner.v or {})]
    group.step(*batches_for(SPACE))
    for old, new in zip(before, (learner.w, learner.v or {}), strict=True):
        assert {name for name in old if torch.equal(old[name], new[name])} == set(names)
