"""BayesNAS: Zhou, Yang, Wang and Pan, A Bayesian Approach for Architecture Search, ICML 2019 (arXiv:1905.04919)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.curvature import diagonal
from smallgroup.methods.decisions import Continue, Decision, EpochEnd
from smallgroup.methods.method import Architecture, Method, Noise
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_number
from smallgroup.runtime.constants import constant_on
from smallgroup.spaces.space import Mixture, Space

_LEAST = 1e-6
"""Scales are kept off zero and infinity."""


@dataclass
class BayesNas(Method):
    """Plain gates on operations and edges under a prior that switches off what is not needed. Approximate.

    out = beta_e sum_i alpha_i o_i(x), penalty lambda sum omega |gate|. After every epoch a Laplace step, H the diagonal
    of the Hessian: c = 1 / (1 / gamma + H / lambda), omega = sqrt(1 / gamma - c / gamma^2), gamma = |gate| / omega.
    Approximate, because published gates are those of single cells, and weights and gates follow the training loss in
    one epoch each.
    """

    name: ClassVar[str] = "bayes-nas"
    removed: ClassVar[frozenset[str]] = frozenset({"none"})

    edge_weight: float = 0.01
    """Weight lambda of the sparsity penalty of whole edges."""
    operation_weight: float = 0.005
    """Weight lambda of the sparsity penalty of single operations."""

    def __post_init__(self) -> None:
        check_number("edge_weight", self.edge_weight, positive=True)
        check_number("operation_weight", self.operation_weight, positive=True)

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the gates, all open: those of the n operations of an edge by 1/n."""
        alphas = {f"alpha_{name}": torch.ones(kind.shape) / kind.shape[1] for name, kind in space.kinds.items()}
        return alphas | {f"beta_{name}": torch.ones(len(kind.edges)) for name, kind in space.kinds.items()}

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        """Mix by the gates themselves, without a softmax."""
        return {
            kind: Mixture(alpha.masked_fill(alpha == -torch.inf, 0.0), edges=architecture[f"beta_{kind}"])
            for kind, alpha in self.logits(architecture).items()
        }

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor:  # noqa: ARG002
        """Return the weighted group lasso; a gate is a group, because all cells of a kind share it."""
        parts = [
            self._weight(name) * (self._omega(name, gate) * gate.abs()).sum() for name, gate in architecture.items()
        ]
        return torch.stack(parts).sum()

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        """Update the prior's variances by the curvature of the validation loss."""
        if epoch.validation_loss is None:
            return Continue()
        for name, curvature in diagonal(epoch.validation_loss, epoch.architecture).items():
            gate = epoch.architecture[name].double().cpu()
            gamma = self.state.get(f"gamma_{name}", torch.ones_like(gate))
            omega = updated(gamma, curvature.double().cpu(), self._weight(name))
            self.state[f"omega_{name}"] = omega
            self.state[f"gamma_{name}"] = (gate.abs() / omega).clamp(_LEAST, 1 / _LEAST)
        return Continue()

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return gamma as a share; an edge that is off takes its operations along: 1 / (1 / gamma + 1 / gamma_e)."""
        found = {}
        for kind, alpha in self.logits(architecture).items():
            own, edge = (self._gamma(name, architecture) for name in (f"alpha_{kind}", f"beta_{kind}"))
            gamma = 1 / (1 / own + 1 / edge[:, None])
            found[kind] = (gamma / (1 + gamma)).to(alpha.device)
        return self.masked(found)

    def _gamma(self, name: str, architecture: Architecture) -> Tensor:
        """Return gamma of the last update; before the first one, gates are compared as they are."""
        gate = architecture[name].detach().double().cpu().abs().clamp(_LEAST, 1 / _LEAST)
        return self.state.get(f"gamma_{name}", gate)

    def _omega(self, name: str, gate: Tensor) -> Tensor:
        known = self.state.get(f"omega_{name}")
        return gate.new_ones(()) if known is None else constant_on(known, gate.device).to(gate.dtype)

    def _weight(self, name: str) -> float:
        return self.operation_weight if name.startswith("alpha_") else self.edge_weight


def updated(gamma: Tensor, curvature: Tensor, weight: float) -> Tensor:
    """Return omega after a Laplace step; where the loss curves down, its curvature counts as none."""
    c = 1 / (1 / gamma + curvature.clamp_min(0) / weight)
    return (1 / gamma - c / gamma**2).clamp_min(0).sqrt().clamp_min(_LEAST)
