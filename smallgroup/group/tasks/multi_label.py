"""Any number of labels per input, each of them yes or no."""

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.group.inputs import Inputs
from smallgroup.group.labels import Labels, check_range, check_rows
from smallgroup.group.task import Task


class MultiLabel(Task):
    """Binary cross-entropy per label; probabilities are handed over. Outputs are logits, [batch, labels].

    Labels have the same shape: 0 or 1, or probabilities in between.
    """

    unit = "labels"

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean binary cross-entropy over inputs and labels."""
        return self.pupil_loss(outputs, labels.to(outputs.dtype))

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return the probability of each label."""
        return outputs.sigmoid()

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the same with probabilities in the place of labels."""
        yes, no = functional.logsigmoid(outputs), functional.logsigmoid(-outputs)
        return -(handed * yes + (1 - handed) * no).mean()

    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """Return a half for every label."""
        return torch.full_like(outputs, 0.5)

    def check_labels(self, labels: Labels, size: int | None, name: str) -> int | None:
        """Refuse labels that are not a probability for each label."""
        check_rows(labels, size, name, dims=2)
        lowest, highest = check_range(labels.to(torch.uint8) if labels.dtype == torch.bool else labels, name)
        if lowest < 0 or highest > 1:
            raise ValueError(f"{name} labels must lie in 0 to 1, but got {lowest if lowest < 0 else highest:g}")
        return None

    def width(self, outputs: Tensor) -> int:
        """Return the number of labels that an input may have."""
        return outputs.shape[-1]
