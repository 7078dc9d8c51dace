"""What a step costs, as ratios: K = 1, 2, 4 and the three hypergradients, measured in turn in one run.

Also the mixed second-derivative product in its three forms, in units of one weight gradient.
Usage: step_time.py [ROUNDS [BATCH]]
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import Learner, ModuleApply, SmallGroup
from smallgroup.group.hypergradients import Hypergradient, exact, finite_difference
from smallgroup.group.objectives import gradients, on_labels

MODES: tuple[Hypergradient, ...] = ("first-order", "finite-difference", "exact")


class Supernet(nn.Module):
    """Mixed layers of separable and dilated convolutions, pooling and identity, as in the DARTS space."""

    def __init__(self, channels: int = 16, layers: int = 4) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.Linear(channels, 10)
        self.layers = nn.ModuleList(
            nn.ModuleList([_separable(channels, 3, 1), _separable(channels, 5, 2), nn.MaxPool2d(3, 1, 1)])
            for _ in range(layers)
        )
        self.alpha = nn.Parameter(1e-3 * torch.randn(layers, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for operations, mix in zip(self.layers, self.alpha.softmax(dim=1), strict=True):
            assert isinstance(operations, nn.ModuleList)
            x = mix[0] * x + sum(m * f(x) for m, f in zip(mix[1:], operations, strict=True))
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


def _separable(channels: int, size: int, dilation: int) -> nn.Module:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(channels, channels, size, padding="same", dilation=dilation, groups=channels, bias=False),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels, affine=False, track_running_stats=False),
    )


def make_learner(seed: int) -> Learner:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, other = Supernet(), Supernet()
    w, v = dict(module.named_parameters()), dict(other.named_parameters())
    return Learner(ModuleApply(module), {"alpha": w.pop("alpha")}, {name: v[name] for name in w}, w)


def medians(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each, the contenders taking turns; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            if turn > 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main(rounds: int = 5, batch: int = 32) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, 32, 32, generator=generator)
    y = torch.randint(10, (batch,), generator=generator)
    steps: dict[str, Callable[[], object]] = {}
    for count in (1, 2, 4):
        for mode in MODES:
            group = SmallGroup([make_learner(k) for k in range(count)], hypergradient=mode)
            steps[f"{count} {mode}"] = partial(group.step, (x, y), x, (x, y))
    seconds = medians(steps, rounds)
    unit = seconds["1 first-order"]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {batch}, median of {rounds} rounds")
    print(f"Time of a step in units of K = 1, first-order ({unit:.3f} s)")
    print("K  " + "".join(f"{mode:>20}" for mode in MODES))
    for count in (1, 2, 4):
        print(f"{count:<3}" + "".join(f"{seconds[f'{count} {mode}'] / unit:>20.2f}" for mode in MODES))

    learner = make_learner(0)
    objective = on_labels(learner, x, y, "w")
    direction = {name: torch.randn(t.shape, generator=generator) for name, t in learner.w.items()}
    a, w = learner.architecture, learner.w

    def double_backward() -> tuple[Tensor, ...]:
        leaves = {name: t.detach().requires_grad_() for name, t in w.items()}
        alpha = {name: t.detach().requires_grad_() for name, t in a.items()}
        loss = F.nll_loss(objective(leaves, alpha).log_q, y)
        first = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
        along = torch.stack([(g * d).sum() for g, d in zip(first, direction.values(), strict=True)]).sum()
        return torch.autograd.grad(along, list(alpha.values()))

    products: dict[str, Callable[[], object]] = {
        "one weight gradient": lambda: gradients(objective, w, a, of_weights=True),
        "finite difference": lambda: finite_difference([objective], w, direction, a, radius=0.01),
        "forward over reverse": lambda: exact([objective], w, direction, a),
        "reverse over reverse": double_backward,
    }
    seconds = medians(products, rounds)
    print("\nOne mixed second-derivative product in units of one weight gradient")
    for name, value in seconds.items():
        print(f"{name:<22}{value / seconds['one weight gradient']:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
