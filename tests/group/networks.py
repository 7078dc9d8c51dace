"""Small smooth learners that differ from one another, and batches for them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import Learner, ModuleApply

CLASSES = 4
SHAPE = (2, 6, 6)


class Convolutional(nn.Module):
    """Two mixed layers with batch norm in train mode; the architecture mixes operations and activations."""

    def __init__(
        self, channels: int, *, activation: Callable[[Tensor], Tensor] = F.softplus, affine: bool = False
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(SHAPE[0], channels, 3, padding=1, bias=False)
        self.small = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.wide = nn.Conv2d(channels, channels, 3, padding=2, dilation=2, groups=channels, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels, affine=affine, track_running_stats=False) for _ in range(3))
        self.head = nn.Linear(channels, CLASSES)
        self.alpha = nn.Parameter(0.3 * torch.randn(2, 4))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](self.stem(x))
        for mix in self.alpha.softmax(dim=1):
            y = self.activation(x)
            x = (
                mix[0] * x
                + mix[1] * self.norms[1](self.small(y))
                + mix[2] * self.norms[2](self.wide(y))
                + mix[3] * F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
            )
        return self.head(x.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class Gated(nn.Module):
    """A perceptron whose architecture is a gate per block of nine features and a mix of activations."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        size = SHAPE[0] * SHAPE[1] * SHAPE[2]
        self.first = nn.Linear(size, hidden)
        self.second = nn.Linear(hidden, CLASSES)
        self.gates = nn.Parameter(0.5 * torch.randn(size // 9))
        self.mix = nn.Parameter(0.5 * torch.randn(2))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x.flatten(1) * torch.sigmoid(self.gates).repeat_interleave(9))
        m = self.mix.softmax(dim=0)
        return self.second(m[0] * torch.tanh(h) + m[1] * F.softplus(h))  # type: ignore[no-any-return]


ARCHITECTURE = ("alpha", "gates", "mix")


def learner_of(build: Callable[[], nn.Module], seed: int, dtype: torch.dtype, **options: Any) -> Learner:
    """A learner whose V and W are two initializations of one network; the same values in every dtype."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = build().to(dtype), build().to(dtype)

    def tensors(module: nn.Module, architecture: bool) -> dict[str, Tensor]:
        return {
            name: p.detach().clone() for name, p in module.named_parameters() if (name in ARCHITECTURE) == architecture
        }

    apply = ModuleApply(second, seed=seed, **options)
    return Learner(apply, tensors(second, True), tensors(first, False), tensors(second, False))


BUILDERS: list[Callable[[], nn.Module]] = [
    lambda: Convolutional(3),
    lambda: Gated(5),
    lambda: Convolutional(4, activation=torch.tanh, affine=True),
]


def make_learners(count: int, dtype: torch.dtype = torch.float64, *, seed: int = 0) -> list[Learner]:
    """Up to three different networks; from the fourth on other seeds of the same."""
    return [learner_of(BUILDERS[k % 3], seed + 10 * k, dtype) for k in range(count)]


Batches = tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]


def make_batches(dtype: torch.dtype = torch.float64, *, seed: int = 5, size: int = 6) -> Batches:
    generator = torch.Generator().manual_seed(seed)

    def images(n: int) -> Tensor:
        return torch.randn((n, *SHAPE), generator=generator, dtype=torch.float64).to(dtype)

    def labels(n: int) -> Tensor:
        return torch.randint(CLASSES, (n,), generator=generator)

    # Three different sizes: a mean over the wrong batch would show.
    return (images(size), labels(size)), images(size + 1), (images(size + 2), labels(size + 2))


def state_of(learners: list[Learner]) -> dict[str, Tensor]:
    """Every tensor of every learner, copied."""
    return {
        f"{k}/{role}/{name}": tensor.detach().clone()
        for k, learner in enumerate(learners)
        for role, tensors in (("a", learner.architecture), ("v", learner.v or {}), ("w", learner.w))
        for name, tensor in tensors.items()
    }


def same_bits(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
