"""Mixed second derivatives times a vector: the only second-order quantity that small-group learning needs.

For objectives F(P, A) that share the weights P, both functions here give

    d/de  grad_A sum F(P + e d, A)   at e = 0,        the product of d2F/(dA dP) with a direction d, and
    d/de  T(P + e d)                 at e = 0,        for each table T that an objective names.

The second comes for nothing beside the first. Of a pupil the table is the slope of its loss in what it was handed, in
classification log q; its derivative is the *sensitivity* s_j of learner j: how much the step that stage 3 asks for
depends on what it is handed, which is all that a teacher has to know of it.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from smallgroup.group.objectives import Objective, gradients
from smallgroup.group.tensors import Tensors, Vector, constants, filled, shifted, total, variables

ZERO = "the direction is zero"

Hypergradient = Literal["first-order", "finite-difference", "exact"]


class Product(NamedTuple):
    """The derivative along the direction of the architecture gradient, and of each table."""

    architecture: dict[str, Tensor]
    tables: list[Tensor]


MixedProduct = Callable[[Sequence[Objective], Tensors, Vector[Tensor], Tensors], Product]


def finite_difference(
    objectives: Sequence[Objective],
    point: Tensors,
    direction: Vector[Tensor],
    architecture: Tensors,
    *,
    radius: float,
) -> Product:
    """Compute Eq. (8): (grad_A F(P + a d) - grad_A F(P - a d)) / 2a, with a = radius / ||d|| over all weights together.

    Right on smooth networks. With ReLU or max pooling the probes flip masks, and the error can be as large as
    the term itself at any radius: see docs/hypergradient.md.
    """
    a = radius / direction.norm
    ahead = _probe(objectives, shifted(point, direction, a), architecture)
    behind = _probe(objectives, shifted(point, direction, -a), architecture)
    return Product(
        {name: (ahead.architecture[name] - behind.architecture[name]) / (2 * a) for name in architecture},
        [(plus - minus) / (2 * a) for plus, minus in zip(ahead.tables, behind.tables, strict=True)],
    )


def exact(objectives: Sequence[Objective], point: Tensors, direction: Vector[Tensor], architecture: Tensors) -> Product:
    """Return the derivative itself, by forward-mode differentiation of the architecture gradient.

    Forward over reverse: one pass carries the direction along with the values, so there is no graph of a graph.
    It measured faster than two backward passes (docs/hypergradient.md) and yields the tables as well.
    """
    parts = []
    tables: list[Tensor] = []
    with forward_ad.dual_level():
        dual = {name: _dual(tensor, direction[name]) for name, tensor in constants(point).items()}
        for objective in objectives:
            leaves = variables(architecture)
            try:
                with torch.enable_grad():
                    loss = objective(dual, leaves)
                    tables += map(_tangent, loss.tables(loss.outputs))
                found: Sequence[Tensor | None] = [None] * len(leaves)
                if leaves and loss.value.requires_grad:
                    found = torch.autograd.grad(loss.value, list(leaves.values()), allow_unused=True)
            except NotImplementedError as error:
                raise NotImplementedError(
                    'hypergradient="exact" needs operations that torch can differentiate in forward mode; '
                    f'use "finite-difference" or another operation. Torch says: {error}'
                ) from error
            tangents = {n: _tangent(g) for n, g in zip(leaves, found, strict=True) if g is not None}
            parts.append(filled(tangents, architecture))
    return Product(total(parts), tables)


def obstacle(direction: Vector[Tensor]) -> str | None:
    """Return why a direction cannot be followed: a term along it is skipped, never divided by zero."""
    if direction.norm == 0:
        return ZERO
    if not direction.norm < float("inf"):
        return "the direction is not finite"
    return None


def negated(product: Product) -> dict[str, Tensor]:
    """Return minus the architecture part: W' and V' are steps *down* the gradient."""
    return {name: -tensor for name, tensor in product.architecture.items()}


def _probe(objectives: Sequence[Objective], point: Tensors, architecture: Tensors) -> Product:
    parts = []
    tables: list[Tensor] = []
    for objective in objectives:
        found = gradients(objective, point, architecture, of_architecture=True)
        parts.append(filled(found.architecture, architecture))
        tables += [table.detach() for table in found.loss.tables(found.loss.outputs)]
    return Product(total(parts), tables)


def _dual(value: Tensor, tangent: Tensor) -> Tensor:
    dual: Tensor = forward_ad.make_dual(value, tangent)  # type: ignore[no-untyped-call]
    return dual


def _tangent(value: Tensor) -> Tensor:
    tangent: Tensor | None = forward_ad.unpack_dual(value).tangent  # type: ignore[no-untyped-call]
    return torch.zeros_like(value) if tangent is None else tangent.detach()
