"""How well images are classified that were not trained on."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data import Dataset, Images
from smallgroup.data.errors import DataError
from smallgroup.data.loader import batch_bounds, batches_of
from smallgroup.data.splits import mixed
from smallgroup.group.tasks.classification import log_mixture

BATCH = 100


@dataclass(frozen=True)
class Evaluation:
    """Mean loss, errors in percent, and who was taken for what."""

    loss: float
    error: float
    error_top5: float
    """The share of images whose class is not among the five likeliest."""
    confusion: list[list[int]]
    """Images by their class (rows) and the class they were given (columns)."""
    wrong: list[bool] = field(default_factory=list)
    """Whether each image was given another class than its own, in the order of their places."""
    confidence: list[float] = field(default_factory=list)
    """The probability of the class that each image was given, in the same order."""
    given: list[int] = field(default_factory=list)
    """The class that each image was given, in the same order."""

    @property
    def recognized(self) -> list[float]:
        """The share of each class that is recognized, in percent; 0 of a class without images."""
        return [100 * row[k] / max(1, sum(row)) for k, row in enumerate(self.confusion)]

    @property
    def balanced_error(self) -> float:
        """The mean over the classes of the error on each, in percent; classes without images do not count."""
        shares = zip(self.recognized, self.confusion, strict=True)
        return fmean(100 - share for share, row in shares if sum(row))


class Sharing(Protocol):
    """Processes that share a look at images."""

    def share_out(self, count: int) -> Iterable[int]:
        """Return which of so many batches are looked at here, in ascending order."""
        ...

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over the processes of what each has found."""
        ...


def evaluate(
    logits_of: Callable[[Tensor], Tensor],
    images: Images,
    dataset: Dataset,
    indices: Tensor,
    *,
    workers: int = 0,
    device: torch.device | str = "cpu",
    sharing: Sharing | None = None,
) -> Evaluation:
    """Classify images as they are, in batches that are always the same for the same images.

    Supernets normalize by the statistics of the batch. So the classes are mixed, although datasets may be sorted by
    them, and nobody chooses the size of the batch. With `sharing` every process looks at some of the batches, and all
    get the same result: that of one process that has the same network.
    """
    if not len(indices):
        raise DataError("classification needs at least one image, but there are none")
    indices = mixed(indices)
    classes, bounds = len(dataset.classes), batch_bounds(len(indices), BATCH)
    mine = [bounds[k] for k in (range(len(bounds)) if sharing is None else sharing.share_out(len(bounds)))]
    # Missed, confidence and class given of each image; the loss of its batch and its top-5 hits, at the first image.
    found = torch.zeros(5, len(indices), dtype=torch.float64)
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    about: dict[str, Any] = {"mean": dataset.mean, "std": dataset.std, "workers": workers, "device": device}
    with torch.no_grad(), closing(batches_of(images, [indices[low:high] for low, high in mine], **about)) as batches:
        for (low, high), (x, y) in zip(mine, batches, strict=True):
            logits = logits_of(x)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            log_q = log_mixture(functional.log_softmax(logits, dim=-1))
            top = log_q.topk(min(5, classes), dim=1).indices
            # Logits of int8 have ties. The first of equal classes counts, as everywhere else; `topk` gives any of them.
            likeliest = log_q.argmax(dim=1)
            confusion += torch.bincount(classes * y.cpu() + likeliest.cpu(), minlength=classes**2).view(classes, -1)
            found[0, low:high] = (likeliest != y).cpu().double()
            found[1, low:high] = log_q.amax(dim=1).cpu().double().exp()
            found[2, low:high] = likeliest.cpu().double()
            found[3, low] = float(functional.nll_loss(log_q, y, reduction="sum"))
            found[4, low] = float((top == y[:, None]).sum())
    if sharing is not None:  # zeros of all but one, so that the sum has every bit
        together = sharing.sum(torch.cat([found.flatten(), confusion.flatten().double()]))
        found, confusion = together[: found.numel()].view_as(found), together[found.numel() :].view_as(confusion).long()
    count = len(indices)
    loss, hits_top5 = sum(found[3, low].item() for low, _ in bounds), int(found[4].sum())
    right = int(confusion.diagonal().sum())
    errors = (100 * (1 - right / count), 100 * (1 - hits_top5 / count))
    order = indices.argsort()
    missed, confidence, given = found[:3, order]
    by_image = missed.bool().tolist(), confidence.tolist(), given.long().tolist()
    return Evaluation(loss / count, *errors, confusion.tolist(), *by_image)
