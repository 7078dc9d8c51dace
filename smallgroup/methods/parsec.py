"""PARSEC: Casale, Gordon and Fusi, Probabilistic Neural Architecture Search, 2019 (arXiv:1902.05116)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smallgroup.methods.method import Architecture, Noise
from smallgroup.methods.sampling import GumbelDraws, drawn, one_hot
from smallgroup.runtime import Phase
from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.space import Evaluated


@dataclass
class Parsec(GumbelDraws):
    """Several sampled networks per pass, weighted by how well they explain the batch: empirical Bayes.

    The loss is -log (1/K) sum_k p(y | A_k), A_k drawn by softmax(alpha); alpha follows sum_k omega_k grad log p(A_k),
    omega the softmax of the log-likelihoods.
    """

    name: ClassVar[str] = "parsec"
    evaluate: ClassVar[Evaluated] = "active"

    children: int = 16
    """Number of sampled networks; each costs a pass."""

    def __post_init__(self) -> None:
        check_counts(children=self.children)

    @property
    def samples(self) -> int:
        """Return how many architectures are sampled in a step."""
        return self.children

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return the sampled operation of each edge, without a gradient: that is the log-probability's."""
        assert noise is not None  # `draw` makes it
        return one_hot(drawn(alpha, noise), alpha)

    def log_probability(self, architecture: Architecture, noise: Noise) -> Tensor:
        """Return the log-probability of the sampled operations of all edges."""
        parts = [
            alpha.log_softmax(dim=1).gather(1, drawn(alpha, noise[kind])[:, None]).sum()
            for kind, alpha in self.logits(architecture).items()
        ]
        return torch.stack(parts).sum()

    def combine(self, losses: Tensor, log_probabilities: Tensor, size: int) -> Tensor:
        """Return minus the log of the marginal likelihood of a batch, per image."""
        terms = log_probabilities - log_probabilities.detach() - size * losses
        return (math.log(len(losses)) - terms.logsumexp(dim=0)) / size
