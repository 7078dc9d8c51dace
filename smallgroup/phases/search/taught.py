"""What learners taught one another in an epoch: how good their labels were by class, and what they disputed most.

Everything is counted on the soft labels of the steps themselves: no pass more, no random number.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

MOST_DISPUTED = 24
"""Images that are kept of an epoch."""
LIKELIEST = 3
"""Classes that are kept of a soft label."""

Dispute = dict[str, Any]
"""`image` (its index), `divergence`, and `labels`: by learner, the likeliest classes as [class, probability]."""


class TaughtCounts:
    """Counts over the steps of an epoch; true classes only where the unlabeled images have lost labels of their own.

    Those are written down and used for nothing.
    """

    def __init__(self, learners: int, classes: int, truth: Tensor | None) -> None:
        self.learners, self.classes, self.truth = learners, classes, truth
        self.latest: list[Dispute] = []
        """The most disputed images of the last epoch that is over."""
        self._counts: list[dict[str, list[int]]] = [{} for _ in range(learners)]
        self._disputed: dict[int, Dispute] = {}

    def note(self, indices: Tensor, tables: Sequence[Tensor | None]) -> None:
        """Count the soft labels of a step in; `indices` says of which images."""
        known = [table.detach().cpu() for table in tables if table is not None]
        if len(known) != self.learners:
            return
        given = [table.argmax(dim=1) for table in known]
        for k, own in enumerate(given):
            self._add(k, "given", own)
            if self.truth is not None:
                true = self.truth[indices]
                self._add(k, "images", true)
                self._add(k, "right", true[own == true])
        for k, j in permutations(range(self.learners), 2):
            self._add(k, "agreed", given[k][given[k] == given[j]])
        if self.learners > 1:
            self._dispute(indices, torch.stack(known))

    def _add(self, k: int, name: str, classes: Tensor) -> None:
        table = self._counts[k].setdefault(name, [0] * self.classes)
        for c, count in enumerate(torch.bincount(classes, minlength=self.classes).tolist()):
            table[c] += count

    def _dispute(self, indices: Tensor, tables: Tensor) -> None:
        """Keep the images whose labels differ most; one that comes again counts as it was seen last."""
        found = divergence(tables)
        best = found.topk(min(MOST_DISPUTED, len(found))).indices.tolist()
        for place in best:
            likeliest = tables[:, place].topk(min(LIKELIEST, self.classes), dim=1)
            labels = [
                [[c, round(p, 4)] for c, p in zip(classes, shares, strict=True)]
                for classes, shares in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
            ]
            image = int(indices[place])
            self._disputed[image] = {"image": image, "divergence": round(float(found[place]), 4), "labels": labels}
        self._disputed = {one["image"]: one for one in _most(self._disputed)}

    def rows(self) -> list[dict[str, Any]]:
        """Return the columns that are added to the row of each learner."""
        return [{"pseudo_labels": counts} if counts else {} for counts in self._counts]

    def clear(self) -> None:
        """Forget the counts of the epoch that is over."""
        self.latest = _most(self._disputed) or self.latest
        self._counts, self._disputed = [{} for _ in range(self.learners)], {}

    def state(self) -> dict[str, Any]:
        """Return all counts of the epoch so far."""
        return {"counts": self._counts, "disputed": list(self._disputed.values()), "latest": self.latest}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the counts of an epoch that a checkpoint interrupted."""
        self._counts = [{name: list(values) for name, values in counts.items()} for counts in state["counts"]]
        self._disputed = {int(one["image"]): one for one in state["disputed"]}
        self.latest = list(state["latest"])


def divergence(tables: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of each image's labels [learners, images, classes], over its maximum."""
    p = tables.double()
    spread = torch.special.entr(p.mean(dim=0)).sum(dim=1) - torch.special.entr(p).sum(dim=2).mean(dim=0)
    found: Tensor = spread.clamp(min=0) / math.log(max(2, min(p.shape[0], p.shape[2])))
    return found


def _most(disputed: Mapping[int, Dispute]) -> list[Dispute]:
    """Return disputes, the most disputed first; of equals the one with the lower index."""
    return sorted(disputed.values(), key=lambda one: (-one["divergence"], one["image"]))[:MOST_DISPUTED]
