"""Arithmetic on named tensors: all weights of a learner as one vector."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


def constants(tensors: Tensors) -> dict[str, Tensor]:
    """The same values, cut off from every graph."""
    return {name: tensor.detach() for name, tensor in tensors.items()}


def variables(tensors: Tensors) -> dict[str, Tensor]:
    """The same values as fresh leaves that ask for a gradient."""
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def copies(tensors: Tensors) -> dict[str, Tensor]:
    """Copies of the values in memory of their own."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def zeros(tensors: Tensors) -> dict[str, Tensor]:
    """Zeros of the same shapes."""
    return {name: torch.zeros_like(tensor, requires_grad=False) for name, tensor in tensors.items()}


def filled(found: Mapping[str, Tensor | None], like: Tensors) -> dict[str, Tensor]:
    """Gradients with zeros where a tensor took no part."""
    result = zeros(like)
    result.update({name: tensor for name, tensor in found.items() if tensor is not None})
    return result


def shifted(point: Tensors, direction: Tensors, amount: float) -> dict[str, Tensor]:
    """`point + amount * direction`, as new tensors: a probe never edits the weights it probes."""
    moved = torch._foreach_add(
        [tensor.detach() for tensor in point.values()],
        [direction[name] for name in point],
        alpha=amount,
    )
    return dict(zip(point, moved, strict=True))


def total(parts: Iterable[Tensors]) -> dict[str, Tensor]:
    """The sum of several sets of equally named tensors, added in the order given."""
    first, *others = parts
    result = dict(first)
    for other in others:
        result = {name: tensor + other[name] for name, tensor in result.items()}
    return result


def summed(parts: Sequence[Mapping[str, Tensor | None]]) -> dict[str, Tensor | None]:
    """The sum of gradients, where None means that a tensor took no part."""
    result = dict(parts[0])
    for part in parts[1:]:
        for name, g in part.items():
            known = result[name]
            result[name] = g if known is None else known if g is None else known + g
    return result


def norm(tensors: Iterable[Tensor]) -> float:
    """The L2 norm of all tensors together, as one vector; 0 for none."""
    return float(torch.nn.utils.get_total_norm(list(tensors)))
