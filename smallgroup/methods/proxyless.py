"""ProxylessNAS: Cai, Zhu and Han, Direct Search on Target Task and Hardware, ICLR 2019 (arXiv:1812.00332)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from smallgroup.methods.decisions import Progress
from smallgroup.methods.expected_cost import expected_cost
from smallgroup.methods.method import Architecture, ArchitectureOptimizer, Method, Noise
from smallgroup.methods.operations import real
from smallgroup.methods.sampling import drawn, gumbel, one_hot
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts, check_number
from smallgroup.runtime.constants import constant_on
from smallgroup.spaces.space import Mixture, Space

_PAIR = "pair_"
"""What the noise by which the two operations are drawn is called, before its kind."""


@dataclass
class Proxyless(Method):
    """Binary gates: one drawn operation per edge runs, and alpha follows the gradient at all gates.

    w = z + p - stop(p), z one-hot by p = softmax(alpha); the others run without a gradient, and only where alpha needs
    one. With two gates, p is that of two operations drawn without replacement, and no others run.
    """

    name: ClassVar[str] = "proxyless"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=1e-3, betas=(0.0, 0.999), weight_decay=0.0)
    warmup: ClassVar[float] = 0.25
    weight_under_limits: ClassVar[float] = 0.1  # as published

    gates: Literal["full", "two"] = "full"
    """Which operations run where alpha needs a gradient: all of an edge, or two that are drawn."""
    every: int = 5
    """Steps of the weights per step of the architecture."""
    cost_weight: float = 0.0
    """Weight of (E - R) / R in the loss: E expected multiply-adds, R those of equal probabilities; published: 0.1."""

    def __post_init__(self) -> None:
        check_counts(every=self.every)
        check_number("cost_weight", self.cost_weight)

    def start(self, space: Space) -> None:
        """Remember which operations are something: an edge that draws `none` has no gradient."""
        super().start(space)
        self.state |= {f"real_{name}": real(kind) for name, kind in space.kinds.items()}

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        """Draw Gumbel noise by which an operation is drawn, and noise that draws the two it is drawn from."""
        logits = self.logits(architecture)
        both = [gumbel(logits, phase, generator) for _ in range(1 if self.gates == "full" else 2)]
        return {**both[0], **{_PAIR + kind: noise for one in both[1:] for kind, noise in one.items()}}

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        """Return one at the drawn operation. The others run only if the gates are differentiated."""
        found = {}
        for kind, alpha in self.logits(architecture).items():
            among = self._among(alpha, noise.get(_PAIR + kind))
            logits = alpha.masked_fill(~among, -torch.inf)
            p, chosen = logits.softmax(dim=1), drawn(logits, noise[kind])
            follows = constant_on(self.state[f"real_{kind}"], alpha.device)[chosen][:, None]
            weights = one_hot(chosen, alpha) + torch.where(follows, p - p.detach(), 0.0)
            found[kind] = Mixture(weights, evaluate="detached" if weights.requires_grad else "active")
            if self.gates == "two":
                found[kind].kept = among.tolist()
        return found

    def _among(self, alpha: Tensor, pair: Tensor | None) -> Tensor:
        """Return a mask [edges, operations] of what a gate is open for: all that are left, or two of them."""
        there = alpha > -torch.inf
        if pair is None:
            return there
        two = (alpha + pair).detach().topk(2, dim=1).indices  # two draws without replacement
        return there & torch.zeros_like(there).scatter(1, two, True)

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor | None:
        """Return the expected cost, relative to that of equal probabilities."""
        if self.cost_weight == 0:
            return None
        p, table = self.scores(architecture), costs()
        equal = {kind: self.mask(kind) / self.mask(kind).sum(dim=1, keepdim=True) for kind in p}
        reference = expected_cost(equal, table)
        expected = expected_cost(p, table)
        return self.cost_weight * (expected / reference.to(expected) - 1)

    def trains_architecture(self, progress: Progress) -> bool:
        """Return whether the architecture moves: in every n-th step."""
        return (progress.step + 1) % self.every == 0

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:
        """Shift both logits with two gates, so that the sum of their exponentials stays."""
        if self.gates == "full":
            return
        for kind, old in self.logits(before).items():
            alpha, among = architecture[f"alpha_{kind}"], self._among(old, noise[_PAIR + kind])
            sizes = [t.masked_fill(~among, -torch.inf).logsumexp(dim=1, keepdim=True) for t in (old, alpha)]
            alpha.copy_(torch.where(among, alpha + sizes[0] - sizes[1], alpha))
