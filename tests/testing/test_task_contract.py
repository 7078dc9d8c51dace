"""The built-in tasks and one of a user's own keep to the contract, and it notices those that do not."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import Classification, DenseClassification, GaussianRegression, MultiLabel, Regression, Task
from smallgroup.testing import TaskContract
from tests.group.tasks.cases import Robust


class Numbers(TaskContract):
    """Labels and outputs that are any numbers."""

    shape: tuple[int, ...] = (3,)

    def outputs(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, *self.shape, generator=generator, dtype=torch.float64)

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, *self.shape, generator=generator, dtype=torch.float64)


class TestClassification(Numbers):
    def task(self) -> Task:
        return Classification()

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randint(3, (size,), generator=generator)


class TestSharpenedLabels(TestClassification):
    def task(self) -> Task:
        return Classification(temperature=0.5)


class TestConfidentLabels(TestClassification):
    """Some rows are confident and some are not, and no row is near the limit."""

    def task(self) -> Task:
        return Classification(temperature=0.8, confidence=0.6)

    def test_the_batch_has_both(self) -> None:
        table = self._made()[3](self._made()[2])
        assert set(table.sum(dim=1).round().tolist()) == {0.0, 1.0}


class TestSmoothedLabels(TestClassification):
    def task(self) -> Task:
        return Classification(label_smoothing=0.2)


class TestMultiLabel(Numbers):
    def task(self) -> Task:
        return MultiLabel()

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.rand(size, 3, generator=generator) < 0.5


class TestRegression(Numbers):
    def task(self) -> Task:
        return Regression()


class TestRegressionOfOneNumber(Numbers):
    shape = ()

    def task(self) -> Task:
        return Regression(mean=2.0)


class TestGaussianRegression(Numbers):
    shape = (2, 3)

    def task(self) -> Task:
        return GaussianRegression()

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, 3, generator=generator, dtype=torch.float64)


class TestPixels(Numbers):
    shape = (3, 2, 2)

    def task(self) -> Task:
        return DenseClassification()

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        labels = torch.randint(3, (size, 2, 2), generator=generator)
        labels[:, 0, 0] = -100
        return labels


class TestTokens(TaskContract):
    def task(self) -> Task:
        return DenseClassification(class_dim=-1, ignore=255, counted=lambda inputs: inputs["mask"])

    def inputs(self, size: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {"mask": torch.rand(size, 4, generator=generator) < 0.7}

    def outputs(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, 4, 3, generator=generator, dtype=torch.float64)

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        labels = torch.randint(3, (size, 4), generator=generator, dtype=torch.uint8)
        labels[:, 1] = 255
        return labels


class TestAUsersOwn(Numbers):
    def task(self) -> Task:
        return Robust()

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)


# What the contract notices.


class Sums(Regression):
    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs - labels).square().sum()


class SumsForPupils(Regression):
    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs - labels).square().mean()

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return (outputs - handed).square().sum()


class SaysItIsLinear(Regression):
    linear = True


class HandsOverConstants(Regression):
    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:
        return super().hand_over(outputs, inputs).detach()


class KnowsItsOutputs(Regression):
    def nothing(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.mean(dim=0, keepdim=True).expand_as(outputs)


class WrongSlope(Regression):
    def slope(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return super().slope(outputs, handed) / len(outputs)


class WrongLossOnNothing(Regression):
    def loss_on_nothing(self, outputs: Tensor, inputs: Any) -> Tensor:
        return super().loss_on_nothing(outputs, inputs) * 2


class LossOnNothingWithAnotherGradient(Regression):
    def loss_on_nothing(self, outputs: Tensor, inputs: Any) -> Tensor:
        loss = super().loss_on_nothing(outputs, inputs)
        return loss.detach() + (loss - loss.detach()) / 2


class WrongChange(Regression):
    """The sensitivity of three targets is 2 / 3 of the change."""

    def handed_change(self, handed: Tensor, sensitivity: Tensor) -> Tensor:  # noqa: ARG002
        return sensitivity


class ChangesInputs(Regression):
    """Only the first time: afterwards they are what it makes of them."""

    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:
        inputs.zero_()
        return super().hand_over(outputs, inputs)


class ChangesOutputs(Regression):
    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:
        with torch.no_grad():
            outputs.clamp_(max=0.1)
        return super().hand_over(outputs, inputs)


class NormalizesInPlace(Regression):
    def normalized(self, outputs: Tensor) -> Tensor:
        with torch.no_grad():
            outputs.clamp_(max=0.1)
        return outputs


class Draws(Regression):
    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs + torch.randn_like(outputs)


class Changes(Regression):
    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return super().pupil_loss(outputs, handed.clone() if handed.requires_grad else handed.mul_(0.5))


class ReturnsRows(Regression):
    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return (outputs - handed).square().mean(dim=1)


class TakesAnyLabels(Regression):
    def check_labels(self, labels: Any, size: int | None, name: str) -> None:  # noqa: ARG002
        return None


class BroadcastsLabels(Regression):
    """[n, 1, 3] against [n, 3] is [n, n, 3]."""

    def label_shape(self, outputs: Tensor) -> None:  # noqa: ARG002
        return None


class ReturnsNothing(Regression):
    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Any:  # noqa: ARG002
        return None


class SinglePrecision(Regression):
    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.float()


NOTICED: dict[type[Task], tuple[str, tuple[Any, ...]]] = {
    Sums: ("test_losses_are_means_over_the_batch", ()),
    SumsForPupils: ("test_losses_are_means_over_the_batch", ()),
    SaysItIsLinear: ("test_a_linear_loss_is_linear", ()),
    HandsOverConstants: ("test_everything_can_be_differentiated", ()),
    KnowsItsOutputs: ("test_nobody_knows_anything_of_nothing", ()),
    WrongSlope: ("test_the_slope_is_minus_the_derivative_of_the_pupils_loss", ()),
    WrongLossOnNothing: ("test_the_loss_on_nothing_is_that_on_the_table_of_nothing", ()),
    LossOnNothingWithAnotherGradient: ("test_the_loss_on_nothing_is_that_on_the_table_of_nothing", ()),
    ChangesInputs: ("test_nothing_is_changed_and_nothing_is_drawn", ()),
    ChangesOutputs: ("test_nothing_is_changed_and_nothing_is_drawn", ()),
    NormalizesInPlace: ("test_nothing_is_changed_and_nothing_is_drawn", ()),
    Draws: ("test_nothing_is_changed_and_nothing_is_drawn", ()),
    Changes: ("test_nothing_is_changed_and_nothing_is_drawn", ()),
    ReturnsRows: ("test_losses_are_numbers_and_tables_have_a_row_per_input", (torch.float64,)),
    TakesAnyLabels: ("test_wrong_labels_are_refused", ()),
    BroadcastsLabels: ("test_labels_of_another_shape_are_refused", ()),
    ReturnsNothing: ("test_losses_are_numbers_and_tables_have_a_row_per_input", (torch.float64,)),
    SinglePrecision: ("test_losses_are_numbers_and_tables_have_a_row_per_input", (torch.float64,)),
}


@pytest.mark.parametrize("task", NOTICED, ids=lambda task: task.__name__)
def test_the_contract_notices(task: type[Task]) -> None:
    name, arguments = NOTICED[task]
    right, wrong = TestRegression(), TestRegression()
    wrong.task = task  # type: ignore[method-assign]
    if not task.linear:
        getattr(right, name)(*arguments)
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
        getattr(wrong, name)(*arguments)


class RightChange(Regression):
    def handed_change(self, handed: Tensor, sensitivity: Tensor) -> Tensor:
        return sensitivity * handed.shape[1] / 2


def test_the_contract_notices_a_wrong_change_of_tables() -> None:
    contract = TestRegression()
    contract.task = RightChange  # type: ignore[method-assign]
    contract.test_the_change_of_a_table_follows_from_the_sensitivity()
    contract.task = WrongChange  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="not close"):
        contract.test_the_change_of_a_table_follows_from_the_sensitivity()


class HandsOverNumbers(Regression):
    """[n] for outputs [n, 1], which its loss broadcasts to [n, n]."""

    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.squeeze(1)

    def nothing(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.new_zeros(len(outputs))


def test_the_contract_notices_tables_that_are_broadcast() -> None:
    contract = TestRegression()
    contract.shape = (1,)
    contract.test_a_row_learns_from_its_own_row_of_a_table()
    contract.task = HandsOverNumbers  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=r"table of shape \(4,\) broadcast against outputs of shape \(4, 1\)"):
        contract.test_a_row_learns_from_its_own_row_of_a_table()


class OneNumber(Regression):
    """A number per input, [n], for outputs [n, 1]."""

    def label_shape(self, outputs: Tensor) -> Sequence[int]:
        return outputs.shape[:1]

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return super().loss(outputs, labels.unsqueeze(1))


class BroadcastsItsLabels(OneNumber):
    """It says that labels are [n], and its loss broadcasts them to [n, n]."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs - labels).square().mean()


class LearnsLabelsOfOthers(OneNumber):
    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return super().loss(outputs, labels.roll(1))


class NumberPerInput(TestRegression):
    __test__ = False
    shape = (1,)

    def labels(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)


def test_the_contract_notices_labels_that_are_broadcast() -> None:
    contract = NumberPerInput()
    contract.task = OneNumber  # type: ignore[method-assign]
    contract.test_a_row_learns_from_its_own_labels()
    contract.task = BroadcastsItsLabels  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=r"labels of shape \(4,\) broadcast against outputs of shape \(4, 1\)"):
        contract.test_a_row_learns_from_its_own_labels()
    contract.task = LearnsLabelsOfOthers  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="must not depend on the labels of other rows"):
        contract.test_a_row_learns_from_its_own_labels()
