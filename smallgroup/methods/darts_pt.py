"""DARTS-PT: Wang et al., Rethinking Architecture Selection in Differentiable NAS, ICLR 2021 (arXiv:2108.04392)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Measured, Progress
from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.methods.operations import real
from smallgroup.runtime import Phase
from smallgroup.spaces.space import Mixture, Space


@dataclass
class DartsPt(Method):
    """DARTS, in whose last epochs each edge gets the operation that the validation accuracy would miss most.

    An edge is decided by hiding each of its operations in turn, the others as they are. Between two decisions the
    weights are tuned, and the architecture stays. At the end edges are compared in the same way.
    """

    name: ClassVar[str] = "darts-pt"

    selection: float = 0.5
    """Share of the epochs at whose ends edges are decided, in a random order."""
    blank: bool = False
    """Whether all operations keep the same weight until their edge is decided: a search without alpha."""

    def __post_init__(self) -> None:
        if not 0 < self.selection <= 1:
            raise ValueError(f"0 < selection <= 1 must hold, but got selection={self.selection}")

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Initialize the architecture, and draw the order of edges over all kinds of cells."""
        architecture = super().initial(space, generator)
        edges = sum(len(kind.edges) for kind in space.kinds.values())
        self.state["order"] = torch.randperm(edges, generator=generator)
        return architecture

    def trains_architecture(self, progress: Progress) -> bool:
        """Return whether the architecture moves: only until edges are decided."""
        return not self.blank and progress.epoch <= self._first(progress)

    def _first(self, progress: Progress) -> int:
        """Return the first epoch that decides edges."""
        return progress.epochs - math.ceil(self.selection * progress.epochs)

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        """Return the softmax of what is left, without what is hidden; it is not divided by the new sum."""
        found = {}
        for kind, alpha in self.logits(architecture).items():
            w = (torch.where(alpha > -torch.inf, 0 * alpha.nan_to_num(), alpha) if self.blank else alpha).softmax(dim=1)
            hidden = self.state.get(f"hidden_{kind}")
            found[kind] = Mixture(w if hidden is None else w.masked_fill(hidden.to(w.device), 0.0))
        return found

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Decide as many edges as are due: at the end of the last epoch all of them are."""
        progress, first = epoch.progress, self._first(epoch.progress)
        if epoch.measure is None or progress.epoch < first or "order" not in self.state:
            return Continue()
        places = [(kind, edge) for kind in self.logits(epoch.architecture) for edge in range(len(self.mask(kind)))]
        due = math.ceil(len(places) * (progress.epoch + 1 - first) / (progress.epochs - first))
        for place in self.state["order"].tolist()[:due]:
            kind, edge = places[place]
            if int(self.mask(kind)[edge].sum()) > 1:
                self._decide(kind, edge, epoch)
        if progress.last_epoch:
            missed = [self._without(kind, edge, slice(None), epoch) for kind, edge in places]
            ranks = {place: rank for rank, place in enumerate(sorted(range(len(places)), key=missed.__getitem__), 1)}
            for kind in self.logits(epoch.architecture):
                own = [ranks[place] / len(places) for place, (other, _) in enumerate(places) if other == kind]
                self.state[f"strength_{kind}"] = torch.tensor(own, dtype=torch.float64)
        return Continue()

    def _decide(self, kind: str, edge: int, epoch: EpochEnd) -> None:
        """Keep the operation of an edge whose absence is missed most; of equals the first."""
        mask = self.mask(kind).clone()
        candidates = [i for i in mask[edge].nonzero().flatten().tolist() if self._may_stay(kind, i)]
        missed = [self._without(kind, edge, i, epoch) for i in candidates]
        mask[edge] = False
        mask[edge, candidates[missed.index(max(missed))]] = True
        self.keep(kind, mask)

    def _may_stay(self, kind: str, operation: int) -> bool:
        """Return whether an operation may be chosen; `none` may not."""
        return bool(self.state[f"real_{kind}"][operation])

    def _without(self, kind: str, edge: int, operations: int | slice, epoch: EpochEnd) -> Measured:
        """Return error and loss with some operations of an edge hidden."""
        assert epoch.measure is not None  # asked for above
        hidden = torch.zeros_like(self.mask(kind))
        hidden[edge, operations] = True
        self.state[f"hidden_{kind}"] = hidden
        try:
            return epoch.measure()
        finally:
            del self.state[f"hidden_{kind}"]

    def start(self, space: Space) -> None:
        """Remember which operations are not `none`."""
        super().start(space)
        self.state |= {f"real_{name}": real(kind) for name, kind in space.kinds.items()}

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the decided operations, by how much their edge is missed; before a decision the softmax."""
        scores = super().scores(architecture)
        strengths = {kind: self.state.get(f"strength_{kind}", torch.ones(())) for kind in scores}
        return {kind: table * strengths[kind].to(table).reshape(-1, 1) for kind, table in scores.items()}
