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
from smallgroup.spaces.darts.names import OPERATIONS
from smallgroup.spaces.darts.operations import build
from smallgroup.spaces.darts.skeleton import Stem
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.layers import FULL, SEARCH, relu_conv_norm
from smallgroup.spaces.nas_bench_201.skeleton import ResidualReduction
from smallgroup.spaces.space import Kind, Mixture
from smallgroup.spaces.weights import initialise

CHANNELS, WIDE = 16, 144
"""Of the images; from 128 channels on, 1x1 convolutions have another gradient on the path `torch`."""
_IMAGES, _SIZE = 8, 8


def canary(*also: str) -> dict[str, str]:
    """Compute forward and backward on the kernel path and threads in use, and return a hash for each computation.

    Args:
        also: other ways in which the run computes: `plain`, the kernel path of exact hypergradients; `bfloat16` or
            `float16`, a training in mixed precision.
    """
    with torch.enable_grad():
        found = {name: _hash(name, compute) for name, compute in _PARTS.items()}
        for way in also:
            with using("plain") if way == "plain" else torch.autocast("cpu", getattr(torch, way)):
                found |= {f"{name} ({way})": _hash(name, compute) for name, compute in _PARTS.items()}
    return found


def _hash(name: str, compute: Callable[[torch.Generator], Iterable[Tensor]]) -> str:
    digest = hashlib.sha256()
    for tensor in compute(stream("canary", name)):
        digest.update(tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _of_layers(make: Callable[[], nn.Module], channels: int = CHANNELS) -> Callable[[torch.Generator], list[Tensor]]:
    """Images through a module, and the gradients in the images and in the weights."""

    def compute(generator: torch.Generator) -> list[Tensor]:
        with torch.device("meta"):
            module = make()
        module = initialise(module, generator).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return _there_and_back(module, _images(channels, generator), list(module.parameters()), generator)

    return compute


def _mixed(stride: int) -> Callable[[torch.Generator], list[Tensor]]:
    """A node of a supernet: all operations on two inputs, their batch norms, and the weighted sum."""
    kind = Kind("canary", ((0, 2), (1, 2)), OPERATIONS)

    def compute(generator: torch.Generator) -> list[Tensor]:
        with torch.device("meta"):
            nodes = MixedNodes(
                kind,
                CHANNELS,
                (stride, stride),
                make=lambda name, channels, step: build(name, channels, step, SEARCH),
                build_edge=MixedEdge,
                mask=None,
            )
        initialise(nodes, generator).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        scores = _numbers(kind.shape, generator).requires_grad_()

        def mixed(images: Tensor) -> Tensor:
            node: Tensor = nodes([images, images.flip(0)], Mixture(scores.softmax(dim=-1)), 0)[-1]
            return node

        return _there_and_back(mixed, _images(CHANNELS, generator), [*nodes.parameters(), scores], generator)

    return compute


def _classifier(generator: torch.Generator) -> list[Tensor]:
    """Products of matrices, losses, and what a step sums over all weights."""
    weights = [_numbers(shape, generator).requires_grad_() for shape in ((100, 64), (100,))]

    def loss(images: Tensor) -> Tensor:
        logits = functional.linear(images.mean(dim=(2, 3)), *weights)
        labels = logits.detach().roll(1, 0)
        return functional.cross_entropy(logits, labels.argmax(dim=-1)) + functional.cross_entropy(
            logits, labels.softmax(dim=-1)
        )

    found = _there_and_back(loss, _images(64, generator), weights, generator)
    return [*found, *torch._foreach_norm(found), torch.randn(100, generator=generator)]


_PARTS: dict[str, Callable[[torch.Generator], list[Tensor]]] = {
    "stem": _of_layers(lambda: Stem("cifar", 3, 3 * CHANNELS, SEARCH), 3),
    "3x3 convolution": _of_layers(lambda: relu_conv_norm(CHANNELS, CHANNELS, SEARCH, kernel=3, bias=True)),
    "3x3 convolution, stride 2": _of_layers(lambda: ResidualReduction(CHANNELS, 2 * CHANNELS, FULL)),
    "1x1 convolution": _of_layers(lambda: relu_conv_norm(4 * CHANNELS, CHANNELS, FULL), 4 * CHANNELS),
    "1x1 convolution, wide": _of_layers(lambda: relu_conv_norm(WIDE, CHANNELS, FULL), WIDE),
    "depthwise convolution": _of_layers(lambda: build("sep_conv_3x3", CHANNELS, 1, SEARCH)),
    "dilated convolution": _of_layers(lambda: build("dil_conv_5x5", CHANNELS, 1, SEARCH)),
    "pooling": _of_layers(lambda: build("avg_pool_3x3", CHANNELS, 1, SEARCH)),
    "mixed operations": _mixed(1),
    "mixed operations, stride 2": _mixed(2),
    "classifier": _classifier,
}


def _there_and_back(
    compute: Callable[[Tensor], Tensor | tuple[Tensor, ...]],
    images: Tensor,
    weights: list[Tensor],
    generator: torch.Generator,
) -> list[Tensor]:
    made = compute(images)
    result = made if isinstance(made, Tensor) else made[0]
    gradients = torch.autograd.grad(result, [images, *weights], _numbers(result.shape, generator).to(result.dtype))
    return [result, *gradients]


def _images(channels: int, generator: torch.Generator) -> Tensor:
    images = _numbers((_IMAGES, channels, _SIZE, _SIZE), generator)
    return images.contiguous(memory_format=torch.channels_last).requires_grad_()


def _numbers(shape: Iterable[int], generator: torch.Generator) -> Tensor:
    """Uniform between -1 and 1: made of bits alone, they are the same everywhere."""
    return 2 * torch.rand(tuple(shape), generator=generator) - 1
