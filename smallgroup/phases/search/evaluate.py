"""How well a learner does on images it is not trained on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data import SearchData, ordered
from smallgroup.group.learner import log_mixture


@dataclass(frozen=True)
class Evaluation:
    """Mean loss, error in percent, and the share of each class that is recognised, in percent."""

    loss: float
    error: float
    recognised: list[float]


def evaluate(
    logits_of: Callable[[Tensor], Tensor], data: SearchData, indices: Tensor, *, batch_size: int
) -> Evaluation:
    """Classify images as they are, in their order, so that the result is a function of the learner alone."""
    dataset = data.dataset
    loss, count = 0.0, 0
    hits, members = (torch.zeros(len(dataset.classes), dtype=torch.int64) for _ in range(2))
    batches = ordered(
        dataset.train, indices, batch_size=batch_size, mean=dataset.mean, std=dataset.std, workers=data.workers
    )
    with torch.no_grad():
        for x, y in batches:
            log_q = log_mixture(functional.log_softmax(logits_of(x), dim=-1))
            loss += float(functional.nll_loss(log_q, y, reduction="sum"))
            right = (log_q.argmax(dim=1) == y).cpu()
            hits += torch.bincount(y.cpu()[right], minlength=len(hits))
            members += torch.bincount(y.cpu(), minlength=len(hits))
            count += len(y)
    recognised = (100 * hits / members.clamp(min=1)).tolist()
    return Evaluation(loss / count, 100 * (1 - int(hits.sum()) / count), recognised)
