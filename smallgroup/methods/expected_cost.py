"""What a network drawn from the probabilities of an architecture costs on average."""

from collections.abc import Mapping

import torch
from torch import Tensor


def expected_cost(probabilities: Mapping[str, Tensor], costs: Mapping[str, Tensor]) -> Tensor:
    """Return sum p_i cost_i over all operations of all edges; -inf marks a removed operation."""
    parts = [(p.masked_fill(p == -torch.inf, 0.0) * costs[kind].to(p)).sum() for kind, p in probabilities.items()]
    return torch.stack(parts).sum()
