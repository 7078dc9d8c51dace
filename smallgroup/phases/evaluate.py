"""How well images are classified that were not trained on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data import Dataset, Images, ordered
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
    def recognised(self) -> list[float]:
        """The share of each class that is recognised, in percent; 0 of a class without images."""
        return [100 * row[k] / max(1, sum(row)) for k, row in enumerate(self.confusion)]

    @property
    def balanced_error(self) -> float:
        """The mean over the classes of the error on each, in percent; classes without images do not count."""
        shares = zip(self.recognised, self.confusion, strict=True)
        return fmean(100 - share for share, row in shares if sum(row))


def evaluate(
    logits_of: Callable[[Tensor], Tensor],
    images: Images,
    dataset: Dataset,
    indices: Tensor,
    *,
    workers: int = 0,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Classify images as they are, in batches that are always the same for the same images.

    Supernets normalise by the statistics of the batch. So the classes are mixed, although datasets may be sorted by
    them, and nobody chooses the size of the batch.
    """
    indices = mixed(indices)
    missed = torch.zeros(len(indices), dtype=torch.bool)
    confidence = torch.zeros(len(indices), dtype=torch.float64)
    given = torch.zeros(len(indices), dtype=torch.int64)
    classes = len(dataset.classes)
    loss, count, hits_top5 = 0.0, 0, 0
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    batches = ordered(
        images, indices, batch_size=BATCH, mean=dataset.mean, std=dataset.std, workers=workers, device=device
    )
    with torch.no_grad():
        for x, y in batches:
            logits = logits_of(x)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            log_q = log_mixture(functional.log_softmax(logits, dim=-1))
            loss += float(functional.nll_loss(log_q, y, reduction="sum"))
            top = log_q.topk(min(5, classes), dim=1).indices
            hits_top5 += int((top == y[:, None]).sum())
            confusion += torch.bincount(classes * y.cpu() + top[:, 0].cpu(), minlength=classes**2).view(classes, -1)
            missed[count : count + len(y)] = (top[:, 0] != y).cpu()
            given[count : count + len(y)] = top[:, 0].cpu()
            confidence[count : count + len(y)] = log_q.amax(dim=1).cpu().double().exp()
            count += len(y)
    right = int(confusion.diagonal().sum())
    errors = (100 * (1 - right / count), 100 * (1 - hits_top5 / count))
    order = indices.argsort()
    by_image = [each[order].tolist() for each in (missed, confidence, given)]
    return Evaluation(loss / count, *errors, confusion.tolist(), *by_image)
