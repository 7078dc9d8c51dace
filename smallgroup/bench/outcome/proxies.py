"""Scores of a network at its initialization, from which a cell can be chosen without any training.

Each takes a network with its initial weights and a batch of images, and gives a number; the network with the highest
one is chosen. The network itself stays as it is.
"""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.spaces.count import parameters

Proxy = Callable[[nn.Module, Tensor], float]


def parameter_count(network: nn.Module, images: Tensor) -> float:  # noqa: ARG001 -- as every proxy is called
    """Return how many numbers the network learns."""
    return float(parameters(network))


def synflow(network: nn.Module, images: Tensor) -> float:
    """Return the sum of |w dR/dw| over the weights of convolutions and linear layers (Tanaka et al., 2020).

    R is the sum of the outputs for one image of ones, where every weight is replaced by its absolute value, biases are
    left out and batch norms are the identity. ReLUs then pass everything on, and R is a sum over all paths through the
    network of the product of the weights along each. In float64: products of many layers leave the range of float32.
    Of the images, only their shape is used.
    """
    linear = copy.deepcopy(network).double().eval()
    weights = [_linearized(layer) for layer in linear.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in linear.modules():
        if isinstance(layer, nn.BatchNorm2d):
            _make_identity(layer)
    ones = torch.ones(1, *images.shape[1:], dtype=torch.float64)
    with kernels.using("plain"), torch.enable_grad():
        gradients = torch.autograd.grad(linear(ones).sum(), weights, allow_unused=True)
    pairs = zip(weights, gradients, strict=True)
    return math.fsum(float((weight.detach() * own).abs().sum()) for weight, own in pairs if own is not None)


def naswot(network: nn.Module, images: Tensor) -> float:
    """Return the log-determinant of the kernel of the images' ReLU codes (Mellor et al., 2021).

    The code of an image says which inputs of the network's ReLUs are positive; the kernel counts the places at which
    two codes agree. Batch norms take the statistics of the batch, as at the first step of a training. Minus infinity
    where two images have the same code.
    """
    codes: list[Tensor] = []
    observed = copy.deepcopy(network).train()
    for layer in observed.modules():
        if isinstance(layer, nn.ReLU):
            layer.register_forward_pre_hook(lambda _, inputs: codes.append((inputs[0] > 0).flatten(1)))
    with kernels.using("plain"), torch.no_grad():  # the other paths do not call the ReLUs
        observed(images)
    if not codes:
        raise ValueError("naswot needs a network with ReLUs, but this one has none")
    return log_determinant(agreements(codes))


def agreements(codes: list[Tensor]) -> Tensor:
    """Return [n, n], how many places of two images' codes agree, from [n, places] for every layer."""
    total = torch.zeros(len(codes[0]), len(codes[0]), dtype=torch.float64)
    for code in codes:
        # Sums of ones: exact in float32 up to 16 million places of a layer.
        ones, zeros = code.float(), (~code).float()
        total += ones @ ones.T + zeros @ zeros.T
    return total


def log_determinant(kernel: Tensor) -> float:
    """Return the natural logarithm of the determinant; minus infinity for a singular kernel."""
    sign, value = torch.linalg.slogdet(kernel)
    return float(value) if sign > 0 else -math.inf


PROXIES: Mapping[str, Proxy] = {"parameters": parameter_count, "synflow": synflow, "naswot": naswot}
"""By the name of the choice."""


def _linearized(layer: nn.Conv2d | nn.Linear) -> Tensor:
    with torch.no_grad():
        layer.weight.abs_()
    layer.bias = None
    return layer.weight


def _make_identity(norm: nn.BatchNorm2d) -> None:
    norm.reset_running_stats()
    norm.eps = 0.0
    if norm.affine:
        with torch.no_grad():
            norm.weight.fill_(1)
            norm.bias.zero_()
