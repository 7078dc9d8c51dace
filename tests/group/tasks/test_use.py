"""Tasks used wrongly: one sentence each, and nothing is changed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import (
    Classification,
    DenseClassification,
    GaussianRegression,
    Learner,
    MultiLabel,
    Regression,
    SmallGroup,
)
from tests.group.networks import make_learners, same_bits, state_of
from tests.group.tasks.cases import CASES, reshaped
from tests.group.tasks.test_tasks import group_for

MODES = ["first-order", "finite-difference", "exact"]
KINDS = ["multi-label", "gaussian", "tokens"]
"""One loss whose slope is the same for all teachers, one whose slope is not, one whose tables are added up."""


def batches_of(name: str, seed: int = 5, dtype: torch.dtype = torch.float64) -> Any:
    return CASES[name].batches(dtype, seed)


# Wrong use.


def with_labels(change: Any) -> Any:
    """The batches with other training labels."""
    return lambda batches: ((batches[0][0], change(batches[0][1])), *batches[1:])


NAN = float("nan")
WRONG: dict[str, tuple[str, Any, type[Exception], str]] = {
    "another number of labels": (
        "multi-label",
        with_labels(lambda y: y[:, :3]),
        ValueError,
        r"train labels must have shape \(6, 4\) for outputs of shape \(6, 4\), but got \(6, 3\)",
    ),
    "labels above 1": (
        "multi-label",
        with_labels(lambda y: 2 * y.long()),
        ValueError,
        "train labels must lie in 0 to 1, but got 2",
    ),
    "labels below 0": (
        "multi-label",
        with_labels(lambda y: -0.25 * y.double()),
        ValueError,
        "train labels must lie in 0 to 1, but got -0.25",
    ),
    "class indices for many labels": (
        "multi-label",
        with_labels(lambda y: y[:, 0].long()),
        ValueError,
        r"train must have one label per input, but got labels of shape \(6,\) for 6 inputs",
    ),
    "NaN labels": (
        "regression",
        with_labels(lambda y: y.clone().index_fill_(0, torch.tensor(2), NAN)),
        ValueError,
        "train labels must be finite, but got nan",
    ),
    "infinite labels": (
        "gaussian",
        with_labels(lambda y: y.clone().index_fill_(0, torch.tensor(2), float("-inf"))),
        ValueError,
        "train labels must be finite, but got -inf",
    ),
    "labels without their dimension": (
        "regression",
        with_labels(lambda y: y[:, 0]),
        ValueError,
        r"train labels must have shape \(6, 4\) for outputs of shape \(6, 4\), but got \(6,\)",
    ),
    "labels with one dimension too many": (
        "one number",
        with_labels(lambda y: y.unsqueeze(1)),
        ValueError,
        r"train labels must have shape \(6,\) for outputs of shape \(6,\), but got \(6, 1\)",
    ),
    "labels of the means' shape twice": (
        "gaussian",
        with_labels(lambda y: torch.stack([y, y], dim=1)),
        ValueError,
        r"train labels must have shape \(6, 2\) for outputs of shape \(6, 2, 2\), but got \(6, 2, 2\)",
    ),
    "fewer labels than inputs": (
        "one number",
        with_labels(lambda y: y[:4]),
        ValueError,
        r"train must have one label per input, but got labels of shape \(4,\) for 6 inputs",
    ),
    "no tensor of labels": (
        "regression",
        with_labels(lambda y: y.tolist()),
        TypeError,
        "train labels must be a tensor, but got list",
    ),
    "a pixel's class too high": (
        "pixels",
        with_labels(lambda y: y.masked_fill(y == 1, 3)),
        ValueError,
        "train labels must be below the number of classes, but got 3 for 3 classes",
    ),
    "a pixel's class negative": (
        "pixels",
        with_labels(lambda y: y.masked_fill(y == 1, -1)),
        ValueError,
        "train labels must not be negative, but got -1",
    ),
    "pixels of another size": (
        "pixels",
        with_labels(lambda y: y[:, :, :4]),
        ValueError,
        r"train labels must have shape \(6, 6, 6\) for outputs of shape \(6, 3, 6, 6\), but got \(6, 6, 4\)",
    ),
    "all pixels ignored": (
        "pixels",
        with_labels(lambda y: torch.full_like(y, -100)),
        ValueError,
        "train labels must not all be -100, the label that is ignored",
    ),
    "pixels with probabilities": (
        "pixels",
        with_labels(lambda y: y.double()),
        TypeError,
        "train labels must be integers",
    ),
    "fewer labels than sentences": (
        "tokens",
        with_labels(lambda y: y[:4]),
        ValueError,
        r"train labels must have shape \(6, 5\) for outputs of shape \(6, 5, 3\), but got \(4, 5\)",
    ),
    "complex labels": (
        "regression",
        with_labels(lambda y: y + 1j),
        TypeError,
        "train labels must be integers .* booleans, but got torch.complex128",
    ),
    "complex classes": (
        "classification",
        with_labels(lambda y: y + 1j),
        TypeError,
        "train labels must be .* but got torch.complex64",
    ),
    "sparse labels": (
        "multi-label",
        with_labels(lambda y: y.double().to_sparse()),
        TypeError,
        "train labels must be a dense tensor, but its layout is torch.sparse_coo",
    ),
    "labels without values": (
        "pixels",
        with_labels(lambda y: y.to("meta")),
        TypeError,
        "train labels must hold values, but they are on the device meta",
    ),
    "nested labels": (
        "one number",
        with_labels(lambda y: torch.nested.nested_tensor(list(y.view(6, 1)), layout=torch.jagged)),
        TypeError,
        "train labels must be a dense tensor, but its layout is torch.jagged",
    ),
    "classes of 16 bits without a sign": (
        "classification",
        with_labels(lambda y: y.to(torch.uint16)),
        TypeError,
        "train labels must be .* but got torch.uint16",
    ),
    "classes of pixels of 16 bits without a sign": (
        "pixels",
        with_labels(lambda y: y.clamp(min=0).to(torch.uint16)),
        TypeError,
        "train labels must be .* but got torch.uint16",
    ),
    "labels of 8 bits with a point": (
        "regression",
        with_labels(lambda y: y.to(torch.float8_e4m3fn)),
        TypeError,
        "train labels must be .* but got torch.float8_e4m3fn",
    ),
    "inputs that are no tensors": (
        "tokens",
        lambda batches: (batches[0], ["a sentence", "another"], batches[2]),
        TypeError,
        "unlabeled inputs must be a tensor, or a dictionary, tuple or list of tensors, but got list",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_labels_and_shapes_are_one_sentence_and_change_nothing(case: str) -> None:
    name, change, error, message = WRONG[case]
    group = group_for(name, 2)
    before = state_of(group.learners)
    with pytest.raises(error, match=message) as raised:
        group.step(*change(batches_of(name)))
    assert "\n" not in str(raised.value)
    assert same_bits(before, state_of(group.learners))
    assert group.steps == 0


OUTPUTS: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "no means and variances": (GaussianRegression(), (4,), r"means and log-variances, \[batch, 2, ...\], .* \(6, 4\)"),
    "no positions": (DenseClassification(), (4,), r"class scores, \[batch, classes, ...positions\], .* \(6, 4\)"),
    "no positions at the end": (DenseClassification(class_dim=-1), (4,), r"\[batch, ...positions, classes\]"),
    "no classes": (Classification(), (2, 2, 1), r"one row of class scores per input, but got shape \(6, 2, 2, 1\)"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_of_another_form_are_one_sentence(case: str) -> None:
    task, shape, message = OUTPUTS[case]
    group = SmallGroup([reshaped(learner, *shape) for learner in make_learners(2)], task=task)
    x, u, x_v = batches_of("classification")
    y = x[1].view(-1, *[1] * (len(shape) - 1)) if isinstance(task, DenseClassification) else x[1]
    y = y.double() if isinstance(task, GaussianRegression) else y
    with pytest.raises(ValueError, match=message):
        group.step((x[0], y), u, x_v if y is x[1] else None)


def test_outputs_for_another_number_of_inputs_are_noticed() -> None:
    def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        outputs: Tensor = inputs.flatten(1).mean(dim=1) * weights["w"] * architecture["a"]
        return outputs[1:]

    learner = Learner(apply, {"a": torch.ones(()).double()}, None, {"w": torch.ones(()).double()})
    with pytest.raises(ValueError, match=r"apply must return one row of outputs per input, but got shape \(5,\) for 6"):
        SmallGroup([learner], task=Regression()).step(*batches_of("one number"))


class Unlabeled(Regression):
    """Labels that fit any outputs: only what learners hand to one another is compared."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:  # noqa: ARG002
        return outputs.square().mean()

    def check_fit(self, *_: Any) -> None:
        pass


def narrowed(learner: Learner) -> Learner:
    inner = learner.apply
    return Learner(lambda w, a, x: inner(w, a, x)[:, :3], learner.architecture, learner.v, learner.w)


def test_learners_must_agree_on_what_they_hand_over() -> None:
    first, second = make_learners(2)
    train, u, _ = batches_of("regression")
    for other, message in (
        (reshaped(second, 2, 2), r"tables of one shape, but learner 0 hands over \(7, 4\) and learner 1 \(7, 2, 2\)"),
        (narrowed(second), "agree on the number of targets, but learner 0 has 4 and learner 1 has 3"),
    ):
        with pytest.raises(ValueError, match=message):
            SmallGroup([first, other], task=Unlabeled()).step(train, u, None)


@pytest.mark.parametrize("task", ["classification", Classification, object()])
def test_a_task_must_be_one(task: Any) -> None:
    with pytest.raises(TypeError, match=r"task must be a Task, such as smallgroup.group.Regression\(\), but got"):
        SmallGroup(make_learners(1), task=task)


MASK: Any = torch.ones(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianRegression(variance=0.0), "0 < variance < infinity must hold, but got variance=0.0"),
        (lambda: GaussianRegression(variance=float("inf")), "0 < variance < infinity must hold, but got variance=inf"),
        (lambda: GaussianRegression(mean=NAN), "-infinity < mean < infinity must hold, but got mean=nan"),
        (lambda: GaussianRegression(variance=None), "variance must be a number, but got NoneType"),  # type: ignore[arg-type]
        (lambda: Regression(mean="a"), "mean must be a number, but got str"),  # type: ignore[arg-type]
        (
            lambda: DenseClassification(class_dim=True),
            r"class_dim must be 1 \(maps\) or -1 \(sequences\), but got True",
        ),
        (lambda: DenseClassification(class_dim=1.0), r"class_dim must be 1 .*, but got 1.0"),  # type: ignore[arg-type]
        (lambda: DenseClassification(ignore=None), "ignore must be an integer, but got NoneType"),  # type: ignore[arg-type]
        (lambda: DenseClassification(ignore=0.5), "ignore must be an integer, but got float"),  # type: ignore[arg-type]
        (lambda: DenseClassification(class_dim=2), r"class_dim must be 1 \(maps\) or -1 \(sequences\), but got 2"),
        (lambda: DenseClassification(counted=MASK), "counted must be a function of the inputs, but got Tensor"),
    ],
)
def test_settings_of_a_task_are_checked(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_mean_below_zero_is_a_mean() -> None:
    assert Regression(mean=-2.5).nothing(torch.zeros(1), None).tolist() == [-2.5]


def test_positions_that_count_must_be_said_of_every_position() -> None:
    case = CASES["tokens"]
    task = DenseClassification(class_dim=-1, ignore=-1, counted=lambda inputs: inputs["mask"][:, :3])
    with pytest.raises(ValueError, match=r"counted must return booleans of shape \(7, 5\), but got torch.bool of"):
        SmallGroup(case.learners(2, torch.float64), task=task).step(*batches_of("tokens"))


def test_samples_are_for_tasks_that_know_them() -> None:
    with pytest.raises(NotImplementedError, match="Regression does not define how several samples are combined"):
        Regression().mixed(torch.zeros(2, 3))


def test_labels_of_eight_bits_are_not_taken_for_the_one_that_is_ignored() -> None:
    """-100 in 8 bits is 156."""
    labels = torch.full((2, 3), 156, dtype=torch.uint8)
    assert DenseClassification().check_labels(labels, 2, "train") == 156


def test_multi_label_takes_yes_and_no_in_any_form() -> None:
    losses = []
    for kind in (torch.bool, torch.uint8, torch.int64, torch.float64):
        (x, y), u, _ = batches_of("multi-label")
        losses.append(SmallGroup(make_learners(1), task=MultiLabel()).step((x, y.to(kind)), u, None).learners[0].w_loss)
    assert len(set(losses)) == 1


def test_what_a_gaussian_knows_is_not_rounded() -> None:
    """0.1 and 0.7 have no exact form in float32."""
    known = GaussianRegression(0.1, 0.7).nothing(torch.zeros(1, 2, dtype=torch.float64), None)
    assert known.flatten().tolist() == [0.1, 0.7]
