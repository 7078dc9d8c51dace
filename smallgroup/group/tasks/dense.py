"""A class per position of every input: per pixel, or per token."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.group.inputs import Inputs
from smallgroup.group.labels import Labels, check_classes, check_integers, check_not_negative, check_rows
from smallgroup.group.task import Task


class DenseClassification(Task):
    """Cross-entropy averaged over positions; maps of soft labels are handed over. Labels are [batch, ...positions].

    Args:
        class_dim: where the classes are in the outputs: 1 for maps, [batch, classes, height, width], and -1 for
            sequences, [batch, length, classes].
        ignore: the label of positions that have none; they do not count. At least one position must.
        counted: inputs -> booleans, [batch, ...positions]: the positions of unlabeled inputs that are taught, such as
            all but padding. By default all are.
    """

    linear = True
    unit = "classes"

    def __init__(
        self, *, class_dim: int = 1, ignore: int = -100, counted: Callable[[Inputs], Tensor] | None = None
    ) -> None:
        if type(class_dim) is not int or class_dim not in (1, -1):  # True and 1.0 equal 1
            raise ValueError(f"class_dim must be 1 (maps) or -1 (sequences), but got {class_dim!r}")
        if counted is not None and not callable(counted):
            raise TypeError(f"counted must be a function of the inputs, but got {type(counted).__name__}")
        if not isinstance(ignore, int) or isinstance(ignore, bool):
            raise TypeError(f"ignore must be an integer, but got {type(ignore).__name__}")
        self.class_dim, self.ignore, self.counted = class_dim, ignore, counted

    def normalized(self, outputs: Tensor) -> Tensor:
        """Return log-probabilities of the classes at every position."""
        return functional.log_softmax(outputs, dim=self.class_dim)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy over the positions that have a label."""
        log_q = outputs.movedim(self.class_dim, 1)
        return functional.nll_loss(log_q, labels.to(torch.int64), ignore_index=self.ignore)

    def hand_over(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return soft labels of every position, and zeros where a position does not count."""
        return self._where_counted(outputs.exp(), inputs)

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        """Return the cross-entropy with soft labels, averaged over the positions that have any."""
        positions = (handed.detach().sum(dim=self.class_dim) > 0).sum().clamp(min=1)
        return -(handed * outputs).sum() / positions

    def nothing(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the same probability for every class, where a position counts."""
        return self._where_counted(torch.full_like(outputs, 1 / outputs.shape[self.class_dim]), inputs)

    def _where_counted(self, table: Tensor, inputs: Inputs) -> Tensor:
        if self.counted is None:
            return table
        mask, positions = self.counted(inputs), table.select(self.class_dim, 0).shape
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != positions:
            found = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(f"counted must return booleans of shape {tuple(positions)}, but got {found}")
        return table * mask.to(table).unsqueeze(self.class_dim)

    def check_labels(self, labels: Labels, size: int | None, name: str) -> int | None:
        """Refuse all but class indices, and labels that are all to be ignored."""
        check_rows(labels, size, name)
        check_integers(labels, name)
        labels = labels.to(torch.int64)  # in 8 bits -100 would be a class
        ignored = labels == self.ignore
        if bool(ignored.all()):
            raise ValueError(f"{name} labels must not all be {self.ignore}, the label that is ignored")
        shown = torch.where(ignored, torch.zeros_like(labels), labels)
        return check_not_negative(shown, name)

    def check_outputs(self, outputs: Tensor, size: int | None, source: str) -> None:
        """Refuse outputs that have no positions beside rows and classes."""
        super().check_outputs(outputs, size, source)
        if outputs.dim() < 3:
            form = "[batch, classes, ...positions]" if self.class_dim == 1 else "[batch, ...positions, classes]"
            raise ValueError(f"{source} must return class scores, {form}, but got shape {tuple(outputs.shape)}")

    def check_fit(self, outputs: Tensor, labels: Tensor, highest: int | None, name: str) -> None:
        """Refuse labels of other positions, and classes beyond the last."""
        super().check_fit(outputs, labels, highest, name)
        check_classes(highest, outputs.shape[self.class_dim], name)

    def label_shape(self, outputs: Tensor) -> Sequence[int]:
        """Return one class index per position."""
        return outputs.select(self.class_dim, 0).shape

    def width(self, outputs: Tensor) -> int:
        """Return the number of classes at a position."""
        return outputs.shape[self.class_dim]
