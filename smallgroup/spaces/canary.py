"""Hashes of fixed computations: where they are the same, the libraries below round as they did before.

The name of a processor and the version of torch do not say it. Environment variables such as ONEDNN_MAX_CPU_ISA and
MKL_CBWR, a virtual machine that hides instructions, or another build of the same version choose other routines.
"""

import hashlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from smallgroup.kernels import using
from smallgroup.runtime import stream
from smallgroup.spaces import definitions
from smallgroup.spaces.layers import FULL, SEARCH, relu_conv_norm
from smallgroup.spaces.weights import initialize

CHANNELS, WIDE = 16, 144
"""Of the images; from 128 channels on, 1x1 convolutions have another gradient on the path `torch`."""
_IMAGES, _SIZE = 8, 8
Compute = Callable[[torch.Generator], list[Tensor]]


def canary(*also: str) -> dict[str, str]:
    """Compute forward and backward on the kernel path and threads in use, and return a hash for each computation.

    Args:
        also: other ways in which the run computes: `plain`, the kernel path of exact hypergradients; `bfloat16` or
            `float16`, a training in mixed precision.
    """
    with torch.enable_grad():
        parts = _parts()
        found = {name: _hash(name, compute) for name, compute in parts.items()}
        for way in also:
            with using("plain") if way == "plain" else torch.autocast("cpu", getattr(torch, way)):
                found |= {f"{name} ({way})": _hash(name, compute) for name, compute in parts.items()}
    return found


def _hash(name: str, compute: Compute) -> str:
    digest = hashlib.sha256()
    for tensor in compute(stream("canary", name)):
        digest.update(tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def of_layers(make: Callable[[], nn.Module], channels: int = CHANNELS) -> Compute:
    """Compute images through a module, and the gradients in the images and in the weights."""

    def compute(generator: torch.Generator) -> list[Tensor]:
        with torch.device("meta"):
            module = make()
        module = initialize(module, generator).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return there_and_back(module, images_for(channels, generator), list(module.parameters()), generator)

    return compute


def _classifier(generator: torch.Generator) -> list[Tensor]:
    """Compute products of matrices, losses, and sums over all weights as a step does."""
    weights = [numbers(shape, generator).requires_grad_() for shape in ((100, 64), (100,))]

    def loss(images: Tensor) -> Tensor:
        logits = functional.linear(images.mean(dim=(2, 3)), *weights)
        labels = logits.detach().roll(1, 0)
        return functional.cross_entropy(logits, labels.argmax(dim=-1)) + functional.cross_entropy(
            logits, labels.softmax(dim=-1)
        )

    found = there_and_back(loss, images_for(64, generator), weights, generator)
    return [*found, *torch._foreach_norm(found), torch.randn(100, generator=generator)]


_SHARED: dict[str, Compute] = {
    "3x3 convolution": of_layers(lambda: relu_conv_norm(CHANNELS, CHANNELS, SEARCH, kernel=3, bias=True)),
    "1x1 convolution": of_layers(lambda: relu_conv_norm(4 * CHANNELS, CHANNELS, FULL), 4 * CHANNELS),
    "1x1 convolution, wide": of_layers(lambda: relu_conv_norm(WIDE, CHANNELS, FULL), WIDE),
    "classifier": _classifier,
}
"""What networks of every space have."""


def _parts() -> dict[str, Compute]:
    found: dict[str, Compute] = {}
    for definition in definitions():
        found |= definition.canary()
    return {**found, **_SHARED}


def there_and_back(
    compute: Callable[[Tensor], Tensor | tuple[Tensor, ...]],
    images: Tensor,
    weights: list[Tensor],
    generator: torch.Generator,
) -> list[Tensor]:
    """Return what images become, and the gradients in them and in the weights."""
    made = compute(images)
    result = made if isinstance(made, Tensor) else made[0]
    gradients = torch.autograd.grad(result, [images, *weights], numbers(result.shape, generator).to(result.dtype))
    return [result, *gradients]


def images_for(channels: int, generator: torch.Generator) -> Tensor:
    """Draw a few small images, the same on every machine."""
    images = numbers((_IMAGES, channels, _SIZE, _SIZE), generator)
    return images.contiguous(memory_format=torch.channels_last).requires_grad_()


def numbers(shape: Iterable[int], generator: torch.Generator) -> Tensor:
    """Return uniform numbers between -1 and 1, made of bits alone, so that they are the same everywhere."""
    return 2 * torch.rand(tuple(shape), generator=generator) - 1
