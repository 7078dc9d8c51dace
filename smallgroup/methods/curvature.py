"""Second derivatives of a loss in the architecture: its largest eigenvalue, and its diagonal."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from smallgroup.runtime import stream

CurvatureLoss = Callable[[Mapping[str, Tensor]], Tensor]


class Hessian:
    """The Hessian of a loss at an architecture, as products with vectors; the loss is evaluated once."""

    def __init__(self, loss: CurvatureLoss, architecture: Mapping[str, Tensor]) -> None:
        leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in architecture.items()}
        with torch.enable_grad():
            value = loss(leaves)
            found = torch.autograd.grad(value, list(leaves.values()), create_graph=True, materialize_grads=True)
        self._leaves, self._gradient = list(leaves.values()), torch.cat([g.flatten() for g in found])
        self.size = self._gradient.numel()

    def times(self, vector: Tensor) -> Tensor:
        """Return the product with a vector over all entries of the architecture."""
        if not self._gradient.requires_grad:
            return torch.zeros_like(self._gradient)
        found = torch.autograd.grad(
            self._gradient, self._leaves, vector.to(self._gradient), retain_graph=True, materialize_grads=True
        )
        return torch.cat([g.flatten() for g in found])


def largest_eigenvalue(loss: CurvatureLoss, architecture: Mapping[str, Tensor], products: int) -> float:
    """Return the largest eigenvalue of the Hessian by Lanczos' method with so many products, exact if there are enough.

    The vectors are kept orthogonal to all before them. The first one is always the same.
    """
    hessian = Hessian(loss, architecture)
    vector = torch.randn(hessian.size, generator=stream("curvature"), dtype=torch.float64)
    basis: list[Tensor] = []
    steps: list[float] = []
    between: list[float] = []
    while len(basis) < min(products, hessian.size):
        basis.append(vector / vector.norm())
        vector = hessian.times(basis[-1]).detach().cpu().double()
        steps.append(float(vector @ basis[-1]))
        known = torch.stack(basis)
        for _ in range(2):  # once more for what rounding left
            vector = vector - known.T @ (known @ vector)
        between.append(float(vector.norm()))
        if between[-1] <= 1e-10 * max(abs(step) for step in steps):  # nothing is left to find
            break
    off = torch.diag(torch.tensor(between[:-1], dtype=torch.float64), 1)
    ritz = torch.linalg.eigvalsh(torch.diag(torch.tensor(steps, dtype=torch.float64)) + off + off.T)
    return float(ritz[-1])


def diagonal(loss: CurvatureLoss, architecture: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the second derivative in each entry of the architecture: as many products as there are entries."""
    hessian, found, begin = Hessian(loss, architecture), {}, 0
    for name, tensor in architecture.items():
        own = []
        for i in range(begin, begin + tensor.numel()):
            unit = torch.zeros(hessian.size).index_fill(0, torch.tensor(i), 1.0)
            own.append(hessian.times(unit)[i].detach())
        found[name], begin = torch.stack(own).reshape(tensor.shape), begin + tensor.numel()
    return found
