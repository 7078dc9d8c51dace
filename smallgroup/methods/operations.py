"""What methods have to know of operations, by their names."""

import torch
from torch import Tensor

from smallgroup.spaces.kinds import Kind

SKIP = "skip_connect"


def has_weights(operation: str) -> bool:
    """Return whether an operation is one that learns: neither `none`, nor a skip connection, nor pooling."""
    return operation not in ("none", SKIP) and "pool" not in operation


def real(kind: Kind) -> Tensor:
    """Return a mask [operations]: True for all but `none`."""
    return torch.tensor([operation != "none" for operation in kind.operations])


def learnable(kind: Kind) -> Tensor:
    """Return a mask [operations]: True for those that learn."""
    return torch.tensor([has_weights(operation) for operation in kind.operations])
