"""A module whose parameters are given with every call."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


class Bound:
    """`module(...)` with other tensors in the places of its parameters, which stand there again after the call.

    What `torch.func.functional_call` does for any module, for one that keeps its layers: their places are looked up
    once, because to find a hundred of them by name takes longer than to compute small cells.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._places: dict[str, tuple[dict[str, Any], str]] = {
            f"{prefix}.{name}" if prefix else name: (part._parameters, name)
            for prefix, part in module.named_modules()
            for name in part._parameters
        }

    def __call__(self, tensors: Mapping[str, Tensor], *arguments: Any) -> Any:  # noqa: ANN401
        """Return what the module makes of the arguments with these tensors, by name."""
        own: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for name, tensor in tensors.items():
                if name not in self._places:
                    raise ValueError(
                        f"tensors must be named like parameters of the module, but it has no {name[:80]!r}"
                    )
                place, key = self._places[name]
                own.append((place, key, place[key]))
                place[key] = tensor
            return self.module(*arguments)
        finally:
            for place, key, parameter in own:
                place[key] = parameter
