"""One class per input: the task of the paper."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.group.inputs import Inputs
from smallgroup.group.labels import (
    Labels,
    check_classes,
    check_integers,
    check_not_negative,
    check_rows,
    of,
)
from smallgroup.group.task import Task
from smallgroup.runtime.checks import check_number, check_probability


class Classification(Task):
    """Cross-entropy on class indices; soft labels are handed over. `apply` returns logits, [batch, classes].

    `apply` may return several samples, [samples, batch, classes]; then labels are the mean of their probabilities.

    Args:
        temperature: divides the log-probabilities of the labels that are handed over: below 1 they are sharper than the
            prediction, above 1 softer.
        confidence: labels of inputs whose highest probability (at temperature 1) is lower are not learned from. The
            mean is still over the whole batch. Which inputs these are counts as constant in gradients.
        label_smoothing: share of each human label that is spread over all classes, in all three stages. What learners
            hand over is not smoothed.
    """

    linear = True
    unit = "classes"

    def __init__(self, *, temperature: float = 1.0, confidence: float = 0.0, label_smoothing: float = 0.0) -> None:
        check_number("temperature", temperature, positive=True)
        check_probability("confidence", confidence)
        check_probability("label_smoothing", label_smoothing)
        self.temperature, self.confidence, self.label_smoothing = temperature, confidence, label_smoothing

    def normalized(self, outputs: Tensor) -> Tensor:
        """Return log-probabilities of the classes, row by row."""
        return functional.log_softmax(outputs, dim=-1)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy with class indices, [batch]; smoothed as in `torch.nn.CrossEntropyLoss`."""
        loss = functional.nll_loss(outputs, labels.to(torch.int64))
        if not self.label_smoothing:
            return loss
        spread = -outputs.sum(dim=1).mean()
        return (1 - self.label_smoothing) * loss + spread * (self.label_smoothing / outputs.shape[1])

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return soft labels, [batch, classes]; rows that are not confident enough are zero."""
        log_p = log_mixture(outputs)
        labels = log_p.exp() if self.temperature == 1 else functional.softmax(log_p / self.temperature, dim=-1)
        if not self.confidence:
            return labels
        # A product with zero would keep NaN of rows that are left out.
        confident = log_p.detach().amax(dim=-1, keepdim=True) >= math.log(self.confidence)
        return torch.where(confident, labels, torch.zeros_like(labels))

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the cross-entropy with soft labels, or with the sum of those of several teachers."""
        return -(handed * outputs).sum(dim=1).mean()

    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the same probability for every class."""
        return torch.full_like(outputs, 1 / outputs.shape[-1])

    def check_labels(self, labels: Labels, size: int | None, name: str) -> int | None:
        """Refuse all but one class index per input."""
        check_rows(labels, size, name, dims=1)
        check_integers(labels, name)
        return check_not_negative(labels, name)

    def check_outputs(self, outputs: Tensor, size: int | None, source: str) -> None:
        """Refuse all but one row of class scores per input (and sample)."""
        if outputs.dim() not in (2, 3) or not outputs.numel() or size not in (None, outputs.shape[-2]):
            raise ValueError(
                f"{source} must return one row of class scores per input, "
                f"but got shape {tuple(outputs.shape)}{of(size)}"
            )

    def check_fit(self, outputs: Tensor, labels: Tensor, highest: int | None, name: str) -> None:
        """Refuse another number of labels than of rows, and classes beyond the last."""
        super().check_fit(outputs, labels, highest, name)
        check_classes(highest, outputs.shape[-1], name)

    def label_shape(self, outputs: Tensor) -> Sequence[int]:
        """Return one class index per row."""
        return outputs.shape[-2:-1]

    def width(self, outputs: Tensor) -> int:
        """Return the number of classes, the last dimension of the outputs."""
        return outputs.shape[-1]

    def slope(self, outputs: Tensor, handed: Tensor) -> Tensor:  # noqa: ARG002
        """Return log q: cross-entropy is linear in its target."""
        return outputs

    def loss_on_nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy with the same probability for every class."""
        return -outputs.mean()

    def handed_change(self, handed: Tensor, sensitivity: Tensor) -> Tensor | None:
        """Return dp = p d(log q), which holds for labels that are the prediction itself."""
        return handed * sensitivity if self.temperature == 1 and not self.confidence else None

    def is_sampled(self, outputs: Tensor) -> bool:
        """Return whether there is a dimension of samples before batch and classes."""
        return outputs.dim() == 3

    def mixed(self, outputs: Tensor) -> Tensor:
        """Return the log-probabilities of the mean of the samples' probabilities."""
        return log_mixture(outputs)


def log_mixture(log_q: Tensor) -> Tensor:
    """Return the log-probabilities of a learner as a whole: of several samples the mean of their probabilities."""
    return log_q if log_q.dim() == 2 else torch.logsumexp(log_q, dim=0) - math.log(log_q.shape[0])
