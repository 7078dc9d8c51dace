"""DrNAS: Chen et al., Dirichlet Neural Architecture Search, ICLR 2021 (arXiv:2006.10355)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Rebuild
from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise
from smallgroup.methods.p_darts import strongest
from smallgroup.methods.pc_darts import PartialEdge
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts, check_number
from smallgroup.runtime.device import CPU
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.space import EdgeParts, Space

_LEAST = 1e-30
"""Shares are kept off zero, where the derivative of a sample is not known."""


@dataclass
class DrNas(Method):
    """Mixing weights drawn from a Dirichlet distribution; progressive: more channels, fewer operations.

    w ~ Dir(elu(alpha) + 1), with the implicit derivative of the sample. Several `parts` make stages of it: then a stage
    ends by keeping the strongest operations, and the next begins with fresh weights (published: widened ones) and the
    same architecture.
    """

    name: ClassVar[str] = "dr-nas"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=6e-4)

    parts: tuple[int, ...] = (1,)
    """A number per stage: 1/part of the channels go through the operations, as in PC-DARTS; progressive: 6, 4."""
    kept: tuple[int, ...] = ()
    """Operations of an edge that are left in each later stage; progressive: 4."""
    divergence: float = 0.0
    """Weight of KL(Dir(elu(alpha) + 1) || Dir(1)) in the loss; published beside weight decay, which is the default."""
    none: bool = False
    """Whether `none` is among the operations, as in the method's code for a space whose cells may leave edges out."""

    def __post_init__(self) -> None:
        if not self.parts or len(self.kept) != len(self.parts) - 1:
            found = f"{len(self.parts)} in parts and {len(self.kept)} in kept"
            raise ValueError(f"dr-nas takes a part per stage and kept operations per later stage, but got {found}")
        for part in self.parts:
            check_counts(part=part)
        for count in self.kept:
            check_counts(kept=count)
        check_number("divergence", self.divergence)

    @property
    def stages(self) -> int:
        """Return the number of stages, one for each part of the channels."""
        return len(self.parts)

    def start(self, space: Space) -> None:
        """Start without `none`, unless it is asked for."""
        super().start(space)
        self.state["stage"] = torch.tensor(0)
        for name, kind in space.kinds.items():
            self.keep(name, self.mask(name) & torch.tensor([self.none or one != "none" for one in kind.operations]))

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        """Draw the sample itself; none in evaluation. Leave removed operations out: a part is Dirichlet too."""
        if phase is None:
            return {}
        found = {}
        for kind, alpha in self.logits(architecture).items():
            c = concentration(alpha.double().cpu())
            sample = torch._sample_dirichlet(c.clamp_min(_LEAST), generator).clamp_min(_LEAST).masked_fill(c == 0, 0.0)
            found[kind] = (sample / sample.sum(dim=1, keepdim=True)).to(alpha)
        return found

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return a sample x, dx_i/dc_j = g_j (delta_ij - x_i), g of a beta distribution; in evaluation the mean."""
        c = concentration(alpha)
        if noise is None:
            return c / c.sum(dim=1, keepdim=True)
        constant = c.detach().clamp_min(_LEAST)
        total = constant.sum(dim=1, keepdim=True).expand_as(c)
        where = CPU if c.device.type == "mps" else c.device  # which has neither this function nor float64
        g = torch._dirichlet_grad(*(one.to(where).double() for one in (noise, constant, total))).to(c)
        change = torch.where(c > 0, g.nan_to_num(0.0, 0.0, 0.0), 0.0) * (c - c.detach())
        return noise + change - noise * change.sum(dim=1, keepdim=True)

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor | None:  # noqa: ARG002
        """Return the weighted divergence, a mean over edges summed over kinds of cells."""
        if self.divergence == 0:
            return None
        parts = [_divergence(concentration(alpha)).mean() for alpha in self.logits(architecture).values()]
        return self.divergence * torch.stack(parts).sum()

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build an edge with the operations on the part of the channels that the stage has."""
        part = self.parts[int(self.state["stage"])]
        return MixedEdge(parts) if part == 1 else PartialEdge(parts, part)

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Keep the strongest operations at the end of a stage, and build the network of the next."""
        stage = epoch.progress.stage
        if not epoch.progress.last_epoch or stage + 1 >= self.stages:
            return Continue()
        for kind, scores in self.scores(epoch.architecture).items():
            self.keep(kind, self.mask(kind) & strongest(scores, self.kept[stage]))
        self.state["stage"] = torch.tensor(stage + 1)
        return Rebuild(keep_architecture=True)


def concentration(alpha: Tensor) -> Tensor:
    """Return elu(alpha) + 1; 0 for removed operations."""
    return functional.elu(alpha) + 1


def _divergence(c: Tensor) -> Tensor:
    """Return KL(Dir(c) || Dir(1)) of each row; concentrations of 0 do not count."""
    there = c > 0
    safe = torch.where(there, c, 1.0)  # whose part below is 0
    total, count = torch.where(there, c, 0.0).sum(dim=1), there.sum(dim=1).to(c)
    parts = -safe.lgamma() + (safe - 1) * (safe.digamma() - total.digamma()[:, None])
    return total.lgamma() - count.lgamma() + torch.where(there, parts, 0.0).sum(dim=1)
