"""Learners, groups and batches for the contracts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from smallgroup.group import Learner, SmallGroup
from smallgroup.methods import Method, Relaxed
from smallgroup.runtime import stream
from smallgroup.spaces.space import Space

GroupBatches = tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]


def learner_of(space: Space, method: Method, number: int = 0, dtype: torch.dtype = torch.float64) -> Learner:
    """Build a learner with fresh weights, and an architecture away from its symmetric start."""
    relaxed = Relaxed(space, method, learner=number)
    architecture = relaxed.initial_architecture(dtype=dtype)
    generator = stream("testing", number)
    for tensor in architecture.values():
        tensor.add_(0.3 * torch.randn(tensor.shape, generator=generator).to(dtype))
    return Learner(
        relaxed, architecture, relaxed.initial_weights("v", dtype=dtype), relaxed.initial_weights("w", dtype=dtype)
    )


def group_of(
    space: Space, methods: Sequence[Method], dtype: torch.dtype = torch.float64, **options: object
) -> SmallGroup:
    """Build a group of one learner per method, with steps so large that every term shows."""
    learners = [learner_of(space, method, number, dtype) for number, method in enumerate(methods)]
    given = {"v_lr": 0.1, "w_lr": 0.1, "architecture_lr": 0.1, **options}
    return SmallGroup(learners, **given)  # type: ignore[arg-type]


def batches_for(space: Space, dtype: torch.dtype = torch.float64, size: int = 6, classes: int = 4) -> GroupBatches:
    """Draw three batches of random images of the space's shape."""
    generator = stream("testing", "batches")
    x, u, x_v = (torch.randn(size, *space.images.shape, generator=generator).to(dtype) for _ in range(3))
    y, y_v = (torch.randint(0, classes, (size,), generator=generator) for _ in range(2))
    return (x, y), u, (x_v, y_v)


def relaxed_of(learner: Learner) -> Relaxed:
    """Return the function of a learner that was built here."""
    assert isinstance(learner.apply, Relaxed)
    return learner.apply
