"""Initial weights of any network, drawn from a private stream.

Modules are built on the meta device, where building draws no random number and needs no memory; their weights are
tensors of their own, so that one module serves V, W and every probe.
"""

import math

import torch
from torch import Tensor, nn

from smallgroup.runtime.memory import check_room


def initial_weights(
    module: nn.Module,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    memory_format: torch.memory_format = torch.contiguous_format,
) -> dict[str, Tensor]:
    """Return torch's own initialization of convolutions, linear layers and batch norms, by name.

    Drawn in float32 on the CPU whatever the dtype and device, so that the values are the same everywhere.
    A module of another kind that owns parameters says how with a method `initial(generator)` -> dict of tensors.
    """
    check_room(4 * sum(parameter.numel() for parameter in module.parameters()), "the weights of a network")
    result: dict[str, Tensor] = {}
    for prefix, part in module.named_modules():
        own = dict(part.named_parameters(recurse=False))
        if not own:
            continue
        values = _initial(part, generator)
        for name, parameter in own.items():
            if name not in values or values[name].shape != parameter.shape:
                raise TypeError(f"no initial value is known for {name!r} of {type(part).__name__}")
            value = values[name].to(device=device, dtype=dtype)
            if value.dim() == 4:
                value = value.contiguous(memory_format=memory_format)
            result[f"{prefix}.{name}" if prefix else name] = value
    return result


def initialize(module: nn.Module, generator: torch.Generator, device: torch.device | str = "cpu") -> nn.Module:
    """Give a module that was built on the meta device its memory, initial weights and fresh running statistics."""
    weights = initial_weights(module, generator, device=device)
    module.to_empty(device=device)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()
    module.load_state_dict(weights, strict=False)
    return module


def _initial(part: nn.Module, generator: torch.Generator) -> dict[str, Tensor]:
    if isinstance(part, nn.Conv2d | nn.Linear):
        bound = 1 / math.sqrt(part.weight[0].numel())  # one over the square root of the fan-in
        names = ["weight"] if part.bias is None else ["weight", "bias"]
        return {n: _uniform(getattr(part, n).shape, bound, generator) for n in names}
    if isinstance(part, nn.BatchNorm2d):
        return {"weight": torch.ones(part.num_features), "bias": torch.zeros(part.num_features)}
    initial = getattr(part, "initial", None)
    if callable(initial):
        given: dict[str, Tensor] = initial(generator)
        return given
    raise TypeError(f"no initial weights are known for {type(part).__name__}")


def _uniform(shape: torch.Size, bound: float, generator: torch.Generator) -> Tensor:
    return (2 * torch.rand(shape, generator=generator) - 1) * bound
