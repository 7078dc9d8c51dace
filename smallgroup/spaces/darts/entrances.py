"""The first layers of cells on a fast path: those of all cells that an output goes into look at it together."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from smallgroup.kernels import AnyTerm, Backend, Term
from smallgroup.kernels.halves import side_by_side
from smallgroup.spaces.layers import Convolutions, FactorizedReduce


def enter(backend: Backend, x: Tensor, layers: Sequence[nn.Module]) -> list[Term]:
    """Apply each of the layers to x, without its normalization where the user of the result can do that."""
    found: list[Term | None] = [None] * len(layers)
    together = [i for i, layer in enumerate(layers) if _is_one_pixel(layer)]
    if together:
        stages = [replace(layers[i].stage(0), last=False) for i in together]  # type: ignore[operator]
        for i, term in zip(together, backend.convolutions([Term(x)], stages, 1), strict=True):
            found[i] = _there(term)
    for i, layer in enumerate(layers):
        if isinstance(layer, FactorizedReduce):
            stage = replace(layer.stage(), last=False)
            found[i] = _there(*backend.convolutions([Term(side_by_side(x))], [stage], 1))
        elif i not in together:
            found[i] = Term(layer(x))
    return [term for term in found if term is not None]


def _is_one_pixel(layer: nn.Module) -> bool:
    return isinstance(layer, Convolutions) and len(layer.stages) == 1 and layer.stride == 1


def _there(term: AnyTerm) -> Term:
    assert isinstance(term, Term)  # only what goes into one sum alone is left to it
    return term
