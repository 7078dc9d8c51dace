"""Arithmetic on named tensors: all weights of a learner as one vector.

A supernet has more than a thousand weights, most of them small. What is done to all of them is done in one call where
there is one (`torch._foreach_*`), and what stays the same from pass to pass is made once.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
Value = TypeVar("Value", Tensor, Tensor | None)


class Point(dict[str, Tensor]):
    """Constants that passes look at, more than one of them: as variables they are made once, and not in every pass."""

    @cached_property
    def variables(self) -> dict[str, Tensor]:
        """The same values as leaves that ask for a gradient."""
        return {name: tensor.detach().requires_grad_() for name, tensor in self.items()}


class Vector(dict[str, Value]):
    """A gradient or a direction, whose norm is computed once; None: a tensor took no part."""

    unread: Tensor | None = None
    """The norm as a scalar on a device that nobody has to wait for, if it was left there."""

    @cached_property
    def norm(self) -> float:
        """The L2 norm of all tensors together."""
        return norm(present(self))


def constants(tensors: Tensors) -> dict[str, Tensor]:
    """Return the same values, cut off from every graph."""
    return dict(tensors) if isinstance(tensors, Point) else {n: tensor.detach() for n, tensor in tensors.items()}


def variables(tensors: Tensors) -> dict[str, Tensor]:
    """Return the same values as leaves that ask for a gradient and that no other graph knows of."""
    return dict(tensors.variables if isinstance(tensors, Point) else Point(tensors).variables)


def copies(tensors: Tensors) -> Point:
    """Return copies of the values in memory of their own."""
    return Point({name: tensor.detach().clone() for name, tensor in tensors.items()})


def zeros(tensors: Tensors) -> dict[str, Tensor]:
    """Return zeros with the shapes, types and devices of the given tensors."""
    return {name: torch.zeros_like(tensor, requires_grad=False) for name, tensor in tensors.items()}


def filled(found: Mapping[str, Tensor | None], like: Tensors) -> dict[str, Tensor]:
    """Return gradients with zeros where a tensor took no part."""
    result = zeros(like)
    result.update({name: tensor for name, tensor in found.items() if tensor is not None})
    return result


def present(found: Mapping[str, Tensor | None]) -> list[Tensor]:
    """Return the gradients of those that took part."""
    return [tensor for tensor in found.values() if tensor is not None]


def shifted(point: Tensors, direction: Tensors, amount: float) -> Point:
    """Return `point + amount * direction` as new tensors: a probe never edits the weights it probes.

    This is the one copy of the weights that a probe makes.
    """
    start, along = list(constants(point).values()), [direction[name] for name in point]
    return Point(zip(point, torch._foreach_add(start, along, alpha=amount), strict=True))


def scaled(tensors: list[Tensor], factor: float | Tensor) -> Sequence[Tensor]:
    """Return `factor * tensor` for each of them, as new tensors; the factor may be a scalar on their device."""
    if not tensors:
        return []
    if isinstance(factor, Tensor):
        return torch._foreach_mul(tensors, factor.to(tensors[0].dtype))
    first = tensors[0]
    if _number_may_be_a_tensor(first) and all(tensor.dtype == first.dtype for tensor in tensors):
        return torch._foreach_mul(tensors, torch.tensor(factor, dtype=first.dtype))
    return torch._foreach_mul(tensors, factor)


def _number_may_be_a_tensor(like: Tensor) -> bool:
    """Return whether a factor may be a tensor with the same bits; on the CPU that saves half of the time."""
    return like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def total(parts: Iterable[Tensors]) -> dict[str, Tensor]:
    """Return the sum of several sets of equally named tensors, added in the order given."""
    first, *others = parts
    result = dict(first)
    for other in others:
        result = {name: tensor + other[name] for name, tensor in result.items()}
    return result


def summed(parts: Sequence[Vector[Tensor | None]]) -> Vector[Tensor | None]:
    """Return the sum of gradients, where None means that a tensor took no part."""
    result = parts[0]
    for part in parts[1:]:
        known = {name: g for name, g in result.items() if g is not None}
        both = {name: g for name, g in part.items() if g is not None and name in known}
        result = Vector({**part, **known})
        if both:
            sums = torch._foreach_add([known[name] for name in both], list(both.values()))
            result.update(zip(both, sums, strict=True))
    return result


def norm(tensors: Iterable[Tensor]) -> float:
    """Return the L2 norm of all tensors together, as one vector; 0 for none."""
    return float(unread_norm(list(tensors)))


def unread_norm(tensors: list[Tensor]) -> Tensor:
    """Return the L2 norm as a scalar tensor, so that on a GPU nobody has to wait for it yet."""
    norms = torch._foreach_norm(tensors) if tensors else ()
    if len({each.device for each in norms}) != 1:
        return torch.nn.utils.get_total_norm(tensors)
    # What `get_total_norm` does, but for the sorting by devices.
    result: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return result


def read(scalars: Sequence[Tensor]) -> list[float]:
    """Return the values of several scalars at once: on a GPU every read waits for all that was asked of it before."""
    if len({scalar.device for scalar in scalars}) != 1:
        return [float(scalar) for scalar in scalars]
    values: list[float] = torch.stack([scalar.reshape(()) for scalar in scalars]).tolist()
    return values
