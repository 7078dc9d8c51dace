"""Tasks of a user's own that are wrong, and frozen labelers that do not fit: one sentence each, nothing is changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import Classification, DenseClassification, Learner, Regression, SmallGroup, Task
from tests.group.networks import make_learners, same_bits, state_of
from tests.group.tasks.cases import CASES, reshaped
from tests.group.tasks.test_tasks import group_for


def changed(method: str, change: Callable[[Any], Any], base: type[Task] = Regression) -> Task:
    """A task of which one method returns something else."""
    right = getattr(base, method)
    kind: type[Task] = type("Mine", (base,), {method: lambda *given: change(right(*given))})
    return kind()


class Known(Regression):
    """Its sensitivity tells how its table changes."""

    def handed_change(self, handed: Tensor, sensitivity: Tensor) -> Tensor:
        return sensitivity * handed.shape[1] / 2


class Linear(Regression):
    """A pupil's loss that is linear in the table, with which the joint form goes another way."""

    linear = True

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return -(outputs * handed).mean()


SCALAR = "must return one floating-point tensor without dimensions, but got"
TABLE = "must return one floating-point tensor with a row for each of 7 inputs, but got"
LIKE = r"must return one floating-point tensor of shape \(7, 4\), but got"
WRONG: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a loss per input": ("loss", lambda loss: loss.expand(6), rf"loss of Mine {SCALAR} torch.float64 of shape \(6,\)"),
    "no loss": ("loss", lambda _: None, f"loss of Mine {SCALAR} None"),
    "a float": ("loss", Tensor.item, f"loss of Mine {SCALAR} float"),
    "a complex loss": ("loss", lambda loss: loss + 1j, rf"loss of Mine {SCALAR} torch.complex128 of shape \(\)"),
    "a constant loss": ("loss", Tensor.detach, "loss of Mine must return a function of the outputs, but no gradient"),
    "no loss of a pupil": ("pupil_loss", lambda _: None, f"loss of Mine {SCALAR} None"),
    "no table": ("hand_over", lambda _: None, f"hand_over of Mine {TABLE} None"),
    "one row for all": (
        "hand_over",
        lambda table: table.mean(dim=0, keepdim=True),
        rf"hand_over of Mine {TABLE} torch.float64 of shape \(1, 4\)",
    ),
    "a number for all": ("hand_over", Tensor.mean, rf"hand_over of Mine {TABLE} torch.float64 of shape \(\)"),
    "a table of integers": ("hand_over", Tensor.long, rf"hand_over of Mine {TABLE} torch.int64 of shape \(7, 4\)"),
    "a width that is a tensor": ("width", torch.tensor, "width of Mine must return an integer or None, but got"),
    "a width that is text": ("width", str, "width of Mine must return an integer or None, but got str"),
    "no outputs": ("normalized", lambda _: None, "normalized of Mine must return its outputs as one floating-point"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_methods_are_one_sentence_and_change_nothing(case: str) -> None:
    method, change, message = WRONG[case]
    check_refused(changed(method, change), message)


def check_refused(task: Task, message: str, **options: Any) -> None:
    group = SmallGroup(make_learners(2), task=task, **options)
    before = state_of(group.learners)
    with pytest.raises(TypeError, match=message) as raised:
        group.step(*CASES["regression"].batches(torch.float64, 5))
    assert "\n" not in str(raised.value)
    assert same_bits(before, state_of(group.learners))


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("nothing", lambda _: None, f"nothing of Mine {LIKE} None"),
        ("nothing", lambda table: table[:1], rf"nothing of Mine {LIKE} torch.float64 of shape \(1, 4\)"),
        ("nothing", lambda table: table[:, :1], rf"nothing of Mine {LIKE} torch.float64 of shape \(7, 1\)"),
        ("hand_over", lambda _: None, f"hand_over of Mine {TABLE} None"),
        ("loss_on_nothing", Tensor.item, f"loss_on_nothing of Mine {SCALAR} float"),
    ],
)
def test_wrong_tables_of_no_knowledge_are_one_sentence(method: str, change: Callable[[Any], Any], message: str) -> None:
    check_refused(changed(method, change), message, targets="uniform")


OF_ANOTHER_SHAPE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a number": (lambda _: 0.5, "float"),
    "a scalar": (Tensor.mean, r"torch.float64 of shape \(\)"),
    "one column": (lambda table: table[:, :1], r"torch.float64 of shape \(7, 1\)"),
    "one row": (lambda table: table[:1], r"torch.float64 of shape \(1, 4\)"),
    "integers": (Tensor.long, r"torch.int64 of shape \(7, 4\)"),
}


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
@pytest.mark.parametrize("case", ["nothing", *OF_ANOTHER_SHAPE])
@pytest.mark.parametrize(("labels_from", "base"), [("v", Regression), ("w-joint", Regression), ("w-joint", Linear)])
def test_slopes_of_another_shape_are_one_sentence(labels_from: str, base: type[Task], case: str, mode: str) -> None:
    """Broadcast, one column would leave a gradient that is only somewhat wrong."""
    change, found = OF_ANOTHER_SHAPE.get(case, (lambda _: None, "None"))
    task = changed("slope", change, base)
    check_refused(task, f"slope of Mine {LIKE} {found}", labels_from=labels_from, hypergradient=mode)


@pytest.mark.parametrize("case", OF_ANOTHER_SHAPE)
def test_changes_of_another_shape_are_one_sentence(case: str) -> None:
    """None is no error here: then the change is measured."""
    change, found = OF_ANOTHER_SHAPE[case]
    task = changed("handed_change", change, Known)
    check_refused(task, f"handed_change of Mine {LIKE} {found}", labels_from="w-joint")


@pytest.mark.parametrize(("shape", "found"), [(6, "6"), ("six", "'six'"), ((6.0, 4), r"\(6.0, 4\)")])
def test_a_shape_of_labels_that_is_none_is_one_sentence(shape: Any, found: str) -> None:
    rule = "label_shape of Mine must return a sequence of integers or None, but got"
    check_refused(changed("label_shape", lambda _: shape), f"{rule} {found}")


class Counts(Task):
    """The documented one: four methods and nothing else."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs.exp() - labels * outputs).mean()

    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.exp()

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return (outputs.exp() - handed * outputs).mean()

    def nothing(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return torch.ones_like(outputs)


def test_labels_of_a_task_with_four_methods_are_not_broadcast() -> None:
    (x, y), u, (x_v, y_v) = CASES["one number"].batches(torch.float64, 5)
    learners = [reshaped(learner, 1) for learner in CASES["one number"].learners(2, torch.float64)]
    group = SmallGroup(learners, task=Counts())
    with pytest.raises(ValueError, match=r"train labels must have shape \(6, 1\) for outputs .* but got \(6,\)"):
        group.step((x, y.square()), u, (x_v, y_v.square()))
    assert group.step((x, y.square()[:, None]), u, (x_v, y_v.square()[:, None])).skipped == 0


# Frozen labelers: nobody knows their shapes but they themselves.


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_frozen_labelers_of_another_shape_do_not_broadcast(mode: Any) -> None:
    """Numbers [n] against [n, 1]: every pupil would learn from every row."""
    train, u, validation = CASES["one number"].batches(torch.float64, 5)
    learners = CASES["one number"].learners(2, torch.float64)
    labelers = [reshaped(learner, 1).frozen() for learner in CASES["one number"].learners(2, torch.float64)]
    group = SmallGroup(learners, task=Regression(), labels_from=labelers, hypergradient=mode)
    before = state_of(learners)
    with pytest.raises(ValueError, match=r"tables of the shape of the learners', \(7,\), but got \(7, 1\)"):
        group.step(train, u, validation)
    assert same_bits(before, state_of(learners))


@pytest.mark.parametrize("size", [1, 3])
def test_frozen_labelers_with_smaller_maps_are_refused(size: int) -> None:
    """A map of one pixel would be broadcast to all of them, another size raises in the middle of a loss."""
    case = CASES["pixels"]
    labelers = [lambda x: x.new_zeros(len(x), 3, size, size) for _ in range(2)]
    group = group_for("pixels", 2, labels_from=labelers)
    with pytest.raises(ValueError, match=rf"learners', \(7, 3, 6, 6\), but got \(7, 3, {size}, {size}\)"):
        group.step(*case.batches(torch.float64, 5))


@pytest.mark.parametrize("name", ["classification", "tokens"])
def test_frozen_labelers_of_one_row_are_refused_where_inputs_cannot_be_counted(name: str) -> None:
    case = CASES[name]
    (x, y), u, (x_v, y_v) = case.batches(torch.float64, 5)
    learners = case.learners(2, torch.float64)
    if name == "classification":
        x, u, x_v = {"x": x}, {"x": u}, {"x": x_v}
        learners = [by_name(learner) for learner in learners]
    labelers = [lambda inputs, a=a: a(inputs)[:1] for a in [learner.frozen() for learner in learners]]
    task = Classification() if name == "classification" else DenseClassification(class_dim=-1, ignore=-1)
    group = SmallGroup(learners, task=task, labels_from=labelers)
    with pytest.raises(ValueError, match=r"learners', \(7, .*\), but got \(1, "):
        group.step((x, y), u, (x_v, y_v))


def by_name(learner: Learner) -> Learner:
    inner = learner.apply
    return Learner(lambda w, a, inputs: inner(w, a, inputs["x"]), learner.architecture, learner.v, learner.w)


def test_frozen_labelers_that_fit_are_asked_once() -> None:
    """The check takes no pass of a labeler."""
    calls = []
    learners = make_learners(2)

    def labeler(inputs: Tensor) -> Tensor:
        calls.append(len(inputs))
        return inputs.new_zeros(len(inputs), 4)

    group = SmallGroup(learners, task=Classification(), labels_from=[labeler, labeler])
    group.step(*CASES["classification"].batches(torch.float64, 5))
    assert calls == [7, 7]
