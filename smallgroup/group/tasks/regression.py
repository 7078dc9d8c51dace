"""Numbers per input: with squared errors, or as a Gaussian with a variance of its own for every input."""

from collections.abc import Sequence

import torch
from torch import Tensor

from smallgroup.group.inputs import Inputs
from smallgroup.group.task import Task
from smallgroup.runtime.checks import check_number


class Regression(Task):
    """Mean squared error; predictions are handed over. Outputs and labels have one shape, [batch, ...].

    Args:
        mean: what a teacher who knows nothing predicts (control `targets="uniform"`): 0 for standardized targets.
    """

    unit = "targets"

    def __init__(self, mean: float = 0.0) -> None:
        check_number("mean", mean, signed=True)
        self.mean = mean

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the squared error, averaged over inputs and targets."""
        return self.pupil_loss(outputs, labels.to(outputs.dtype))

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the predictions themselves, which peers take as targets."""
        return outputs

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the same with a teacher's predictions in the place of labels."""
        return (outputs - handed).square().mean()

    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the mean of all targets."""
        return torch.full_like(outputs, self.mean)

    def width(self, outputs: Tensor) -> int:
        """Return the number of targets per input."""
        return outputs.shape[1:].numel()


class GaussianRegression(Task):
    """Gaussian negative log-likelihood; means and variances are handed over.

    Outputs are [batch, 2, ...]: `outputs[:, 0]` are means, `outputs[:, 1]` logarithms of variances. Labels are
    [batch, ...]. As in torch, the constant log(2 pi) / 2 is left out.

    Args:
        mean: what a teacher who knows nothing predicts: 0 for standardized targets.
        variance: the variance of that prediction: 1 for standardized targets.
    """

    unit = "targets"

    def __init__(self, mean: float = 0.0, variance: float = 1.0) -> None:
        check_number("mean", mean, signed=True)
        check_number("variance", variance, positive=True)
        self.mean, self.variance = mean, variance

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return -log N(label; mean, variance), averaged over inputs and targets."""
        mean, log_variance = outputs.unbind(dim=1)
        errors = (labels.to(mean.dtype) - mean).square()
        return 0.5 * (log_variance + errors * torch.exp(-log_variance)).mean()

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return means and variances, [batch, 2, ...]."""
        mean, log_variance = outputs.unbind(dim=1)
        return torch.stack([mean, log_variance.exp()], dim=1)

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the expected loss on labels drawn from the teacher's Gaussian: the cross-entropy of the two."""
        mean, log_variance = outputs.unbind(dim=1)
        teachers_mean, teachers_variance = handed.unbind(dim=1)
        errors = (teachers_mean - mean).square() + teachers_variance
        return 0.5 * (log_variance + errors * torch.exp(-log_variance)).mean()

    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the mean and the variance of all targets."""
        known = torch.tensor([self.mean, self.variance], dtype=outputs.dtype, device=outputs.device)
        return known.view(1, 2, *[1] * (outputs.dim() - 2)).expand_as(outputs)

    def check_outputs(self, outputs: Tensor, size: int | None, source: str) -> None:
        """Refuse all but two numbers per target."""
        super().check_outputs(outputs, size, source)
        if outputs.dim() < 2 or outputs.shape[1] != 2:
            raise ValueError(
                f"{source} must return means and log-variances, [batch, 2, ...], but got shape {tuple(outputs.shape)}"
            )

    def label_shape(self, outputs: Tensor) -> Sequence[int]:
        """Return the shape of the means."""
        return outputs[:, 0].shape

    def width(self, outputs: Tensor) -> int:
        """Return the number of targets per input."""
        return outputs.shape[2:].numel()
