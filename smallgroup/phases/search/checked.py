"""Classification on labels that were looked at before, so that no step waits for a device to look at its own."""

from smallgroup.data import SearchData
from smallgroup.group.labels import Labels, check_integers, check_rows
from smallgroup.group.tasks.classification import Classification


class CheckedClassification(Classification):
    """The task of the paper without a look at the values of labels: those of a dataset are known to be classes."""

    def check_labels(self, labels: Labels, size: int | None, name: str) -> int | None:
        """Refuse all but one integer per input; nothing is said about the highest one."""
        check_rows(labels, size, name, dims=1)
        check_integers(labels, name)
        return None


def check_labels(data: SearchData) -> None:
    """Refuse data whose labels are not all among its classes."""
    labels, classes = data.dataset.labels(), len(data.dataset.classes)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ValueError(f"labels must be 0 to {classes - 1} for {classes} classes, but they are {low} to {high}")
