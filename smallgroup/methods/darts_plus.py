"""DARTS+: Liang et al., Improved Differentiable Architecture Search with Early Stopping, 2019 (arXiv:1909.06035)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Stop
from smallgroup.methods.method import Architecture, Method
from smallgroup.methods.operations import learnable
from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.space import Space


@dataclass
class DartsPlus(Method):
    """DARTS that stops before skip connections take over, or when the order of operations that learn has settled."""

    name: ClassVar[str] = "darts-plus"

    criterion: Literal["skips", "ranking"] = "skips"
    """When to stop: at a number of skip connections, or when the ranking of operations has settled."""
    skips: int = 2
    """Stop as soon as the derived (normal) cell has so many skip connections."""
    patience: int = 10
    """Stop when the order has not changed for so many epochs."""

    def __post_init__(self) -> None:
        check_counts(skips=self.skips, patience=self.patience)

    def start(self, space: Space) -> None:
        """Remember which operations have weights; the rules of the method need it."""
        super().start(space)
        self.state["unchanged"] = torch.tensor(0)
        self.state |= {f"learnable_{name}": learnable(kind) for name, kind in space.kinds.items()}

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Decide whether the search stops, from the epoch in which the architecture moves."""
        if epoch.progress.epoch < epoch.progress.frozen:
            return Continue()
        if self.criterion == "skips":
            found = int(epoch.genotype.skips)
            return Stop(f"the derived cell has {found} skip connections") if found >= self.skips else Continue()
        changed = self._note_order(epoch.architecture)
        self.state["unchanged"] = torch.tensor(0 if changed else int(self.state["unchanged"]) + 1)
        settled = int(self.state["unchanged"]) >= self.patience
        return Stop(f"the order of operations has not changed for {self.patience} epochs") if settled else Continue()

    def _note_order(self, architecture: Architecture) -> bool:
        """Return whether the order of the operations that learn has changed since it was last noted, on any edge."""
        changed = False
        for kind, alpha in self.logits(architecture).items():
            order = alpha.detach().cpu()[:, self.state[f"learnable_{kind}"]].argsort(dim=1, stable=True)
            before = self.state.get(f"order_{kind}")
            changed = changed or before is None or not torch.equal(before, order)
            self.state[f"order_{kind}"] = order
        return changed
