"""DropNAS: Hong et al., Grouped Operation Dropout for Architecture Search, IJCAI 2020 (arXiv:2201.11679)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.methods.operations import learnable
from smallgroup.runtime import Phase
from smallgroup.spaces.space import Evaluated, Space


@dataclass
class DropNas(Method):
    """Operations dropped at random, by groups. Published as single-level; here alpha follows validation data.

    w = softmax over what is kept: at least one of the operations that learn, and one of the others. Each of n
    operations of a group is dropped with probability rate^(1/n). After a step of the architecture the kept logits are
    shifted so that dropped operations keep their probability.
    """

    name: ClassVar[str] = "drop-nas"
    evaluate: ClassVar[Evaluated] = "active"
    level: ClassVar[Literal["bilevel", "single"]] = "single"

    rate: float = 3e-5
    """Probability that all operations of a group are dropped, in which case they are drawn again."""

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise ValueError(f"rate must be at least 0 and below 1, but got {self.rate}")

    def start(self, space: Space) -> None:
        """Remember which operations have weights; the rules of the method need it."""
        super().start(space)
        self.state |= {f"learnable_{name}": learnable(kind) for name, kind in space.kinds.items()}

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        """Return one for each kept operation and zero for each dropped one; in evaluation nothing is dropped."""
        found = {}
        for kind, alpha in self.logits(architecture).items():
            present = self.mask(kind).clone()
            for group in (self.state[f"learnable_{kind}"], ~self.state[f"learnable_{kind}"]):
                if phase is not None:
                    present &= ~group | self._kept(self.mask(kind) & group, generator)
            found[kind] = present.to(alpha)
        return found

    def _kept(self, group: Tensor, generator: torch.Generator) -> Tensor:
        """Return a mask [edges, operations] of what stays of a group; edges that would lose it all are drawn again."""
        probability = self.rate ** (1 / group.sum(dim=1, keepdim=True).clamp_min(1))
        kept, again = torch.zeros_like(group), group.any(dim=1)
        while bool(again.any()):
            stays = group & (torch.rand(group.shape, generator=generator) >= probability)
            kept = torch.where(again[:, None], stays, kept)
            again = again & ~kept.any(dim=1)
        return kept

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return the softmax over what is kept."""
        assert noise is not None  # `draw` makes it
        return alpha.masked_fill(noise == 0, -torch.inf).softmax(dim=1)

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:
        """Keep dropped logits, and shift the others so that the sum of their exponentials stays."""
        for kind, kept in noise.items():
            alpha, old = architecture[f"alpha_{kind}"], before[f"alpha_{kind}"]
            dropped = kept == 0
            sizes = [t.masked_fill(dropped, -torch.inf).logsumexp(dim=1, keepdim=True) for t in (old, alpha)]
            alpha.copy_(torch.where(dropped, old, alpha + sizes[0] - sizes[1]))

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return raw alpha as a share by the sigmoid, which keeps the order in which edges compete."""
        return self.masked({kind: alpha.double().sigmoid() for kind, alpha in self.logits(architecture).items()})
