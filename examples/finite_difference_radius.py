"""How good are finite differences of the architecture gradient, and at which radius?

Two small supernets that differ in their activation and pooling only (ReLU and max pooling; softplus and average
pooling) learn scikit-learn's handwritten digits in a group of two. At initialization and after some training the
finite-difference terms "own", "cross" and "label" of the architecture gradient are measured against the exact ones,
over a range of radii, in float32 and float64: relative error ||fd - exact|| / ||exact|| and cosine, per learner.

    python examples/finite_difference_radius.py                 # two or three minutes: a table, and a figure in docs/
    python examples/finite_difference_radius.py --json all.json # every single measurement as well
    python examples/finite_difference_radius.py --quick         # about ten seconds, to see that it works
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from smallgroup.group import Learner, ModuleApply, Optimizers, SmallGroup

TERMS = ("own", "cross", "label")
# From probes that reach no kink, where rounding rules, to probes so long that every network is curved along them.
RADII = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
PAPER_RADIUS = 0.01
DTYPES = {"float32": torch.float32, "float64": torch.float64}
LEARNERS, CHANNELS, LAYERS = 2, 8, 3
RATE = 0.025  # xi_V = xi_W, the rate of DARTS and of the paper

Batches = tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]


class Supernet(nn.Module):
    """A tiny DARTS: stem, layers that mix {3x3 conv, 1x1 conv, pooling, skip} by softmax(alpha), linear head."""

    def __init__(self, activation: Callable[[Tensor], Tensor], pool: nn.Module) -> None:
        super().__init__()
        self.activation, self.pool = activation, pool
        self.stem = nn.Conv2d(1, CHANNELS, 3, padding=1, bias=False)
        self.wide = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False) for _ in range(LAYERS))
        self.narrow = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False) for _ in range(LAYERS))
        # Without weights or running statistics it is a pure function, so that one serves everywhere.
        self.norm = nn.BatchNorm2d(CHANNELS, affine=False, track_running_stats=False)
        self.head = nn.Linear(4 * CHANNELS, 10)
        self.alpha = nn.Parameter(1e-3 * torch.randn(LAYERS, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of 8x8 images."""
        x = self.norm(self.stem(x))
        for mix, wide, narrow in zip(self.alpha.softmax(dim=1), self.wide, self.narrow, strict=True):
            y = self.activation(x)
            convolved = mix[0] * self.norm(wide(y)) + mix[1] * self.norm(narrow(y))
            x = convolved + mix[2] * self.norm(self.pool(x)) + mix[3] * x
        x = F.adaptive_avg_pool2d(self.activation(self.norm(x)), 2)
        logits: Tensor = self.head(x.flatten(1))
        return logits


NETWORKS: dict[str, Callable[[], Supernet]] = {
    "ReLU + max pooling": lambda: Supernet(F.relu, nn.MaxPool2d(3, 1, 1)),
    "softplus + average pooling": lambda: Supernet(F.softplus, nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
}


class Digits:
    """Normalized digits in three disjoint parts (labeled, unlabeled, validation) and random batches of them."""

    def __init__(self, seed: int, batch: int) -> None:
        images, labels = load_digits(return_X_y=True)
        self.x = torch.tensor((images - images.mean()) / images.std(), dtype=torch.float32).view(-1, 1, 8, 8)
        self.y, self.batch = torch.tensor(labels), batch
        self.generator = torch.Generator().manual_seed(seed)
        self.parts = torch.randperm(len(self.x), generator=self.generator).chunk(3)

    def batches(self) -> Batches:
        """One batch of each part."""
        n, generator = self.batch, self.generator
        train, unlabeled, validation = (p[torch.randint(len(p), (n,), generator=generator)] for p in self.parts)
        return (self.x[train], self.y[train]), self.x[unlabeled], (self.x[validation], self.y[validation])


@dataclass(frozen=True)
class Measurement:
    """One term of one learner against its exact value; the radius None stands for hypergradient="exact"."""

    network: str
    when: str
    seed: int
    dtype: str
    radius: float | None
    learner: int
    term: str
    error: float
    cosine: float
    size: float
    """||exact|| as a part of that of the direct term."""


def make_learner(build: Callable[[], Supernet], seed: int) -> Learner:
    """A learner whose V and W are two initializations of one network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = build(), build()

    def weights(module: nn.Module) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in module.named_parameters() if name != "alpha"}

    return Learner(ModuleApply(second), {"alpha": second.alpha.detach()}, weights(first), weights(second))


def train(learners: Sequence[Learner], digits: Digits, steps: int) -> None:
    """Steps of small-group learning with the usual optimizers of a search."""
    optimizers = [
        Optimizers(
            v=SGD((learner.v or {}).values(), lr=RATE, momentum=0.9),
            w=SGD(learner.w.values(), lr=RATE, momentum=0.9),
            architecture=Adam(learner.architecture.values(), lr=3e-4, betas=(0.5, 0.999)),
        )
        for learner in learners
    ]
    # The cheapest mode: what is needed is a trained point, not the one that a particular mode leads to.
    group = SmallGroup(learners, hypergradient="first-order", optimizers=optimizers)
    for _ in range(steps):
        group.step(*digits.batches())


def terms_of(
    learners: Sequence[Learner], batches: Batches, dtype: torch.dtype, radius: float | None
) -> list[dict[str, Tensor]]:
    """The terms of each learner's architecture gradient as vectors, computed in `dtype` at the very same values."""

    def cast(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(dtype, copy=True) for name, tensor in tensors.items()}

    copies = [Learner(each.apply, cast(each.architecture), cast(each.v or {}), cast(each.w)) for each in learners]
    if radius is None:
        group = SmallGroup(copies, hypergradient="exact", v_lr=RATE, w_lr=RATE)
    else:
        group = SmallGroup(copies, hypergradient="finite-difference", radius=radius, v_lr=RATE, w_lr=RATE)
    (x, y), u, (x_v, y_v) = batches
    parts = group.architecture_gradients((x.to(dtype), y), u.to(dtype), (x_v.to(dtype), y_v), parts=True)
    return [{t: torch.cat([g.flatten().double() for g in part[t].values()]) for t in part} for part in parts]


def measure(
    learners: Sequence[Learner], batches: Batches, radii: Sequence[float], place: tuple[str, str, int]
) -> Iterator[Measurement]:
    """Every dtype and radius at one point, against the exact terms in float64; exact in float32 as a control."""
    reference = terms_of(learners, batches, torch.float64, None)
    for dtype, radius in [("float32", None), *itertools.product(DTYPES, radii)]:
        found = terms_of(learners, batches, DTYPES[dtype], radius)
        for k, term in itertools.product(range(LEARNERS), TERMS):
            ours, exact = found[k][term], reference[k][term]
            error = float((ours - exact).norm() / exact.norm())
            cosine = float(F.cosine_similarity(ours, exact, dim=0))
            size = float(exact.norm() / reference[k]["direct"].norm())
            yield Measurement(*place, dtype, radius, k, term, error, cosine, size)


def run(seeds: int, steps: int, radii: Sequence[float], batch: int) -> list[Measurement]:
    """All measurements: every network and seed, before and after training."""
    found: list[Measurement] = []
    for (network, build), seed in itertools.product(NETWORKS.items(), range(seeds)):
        learners = [make_learner(build, LEARNERS * seed + k) for k in range(LEARNERS)]
        digits = Digits(seed, batch)
        found += measure(learners, digits.batches(), radii, (network, "at initialization", seed))
        train(learners, digits, steps)
        found += measure(learners, digits.batches(), radii, (network, f"after {steps} steps", seed))
    return found


def matching(found: Iterable[Measurement], **values: object) -> list[Measurement]:
    return [m for m in found if all(getattr(m, name) == value for name, value in values.items())]


def distinct(found: Iterable[Measurement], field: str) -> list[Any]:
    """The values of a field, in order of appearance."""
    return list(dict.fromkeys(getattr(m, field) for m in found))


def table(found: Sequence[Measurement]) -> Iterator[str]:
    """Plain text: a block per network, time and dtype, a row per radius."""
    count = len(distinct(found, "seed")) * LEARNERS
    yield f"v_lr = w_lr = {RATE}; in each cell, over {count} learners: relative error, median [min max], then cosine,"
    yield 'median [min max], against the exact terms in float64; "exact" is hypergradient="exact" in float32.'
    for network, when in itertools.product(NETWORKS, distinct(found, "when")):
        at = matching(found, network=network, when=when)
        sizes = [f"{term} {median(m.size for m in matching(at, term=term)):.0e}" for term in TERMS]
        yield f"\n{network}, {when}; median sizes, direct = 1: {', '.join(sizes)}"
        for dtype in DTYPES:
            block = matching(at, dtype=dtype)
            yield f"{dtype}  " + "  ".join(f"{term:<41}" for term in TERMS).rstrip()
            for radius in distinct(block, "radius"):
                cells = [cell(matching(block, radius=radius, term=term)) for term in TERMS]
                yield f"{'exact' if radius is None else f'{radius:g}':>7}  " + "  ".join(cells)


def cell(found: Sequence[Measurement]) -> str:
    errors, cosines = [m.error for m in found], [m.cosine for m in found]
    return (
        f"{median(errors):.1e} [{min(errors):.0e} {max(errors):.0e}]"
        f" {median(cosines):5.2f} [{min(cosines):5.2f} {max(cosines):5.2f}]"
    )


# At initialization and after training: light and dark of one color per network.
COLORS = dict(zip(NETWORKS, (("#f4a261", "#b5260b"), ("#7fb8dd", "#0b4f8a")), strict=True))


def draw(found: Sequence[Measurement], path: Path) -> None:
    """The own term: relative error and cosine against the radius."""
    # A salt of our own and no date: the same numbers give the same file.
    style: dict[Any, Any] = {"svg.hashsalt": "smallgroup", "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(style):
        figure = Figure(figsize=(10, 5), layout="constrained")
        left, right = figure.subplots(1, 2)
        lines = draw_panel(left, found, "error")
        left.set(yscale="log", ylabel="relative error of the own term  ‖fd − exact‖ / ‖exact‖")
        left.axhline(1, color="0.4", linewidth=0.8, zorder=0)
        left.text(1.01, 1, "leaving\nit out", transform=left.get_yaxis_transform(), va="center")
        draw_panel(right, found, "cosine")
        right.set(ylabel="cosine of the own term, fd and exact")
        lines.append(Line2D([], [], color="0.3", label="float32, band from min to max"))
        lines.append(Line2D([], [], color="0.3", linestyle="--", label="float64"))
        figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def draw_panel(axes: Axes, found: Sequence[Measurement], quantity: str) -> list[Line2D]:
    """Medians, and bands for float32 alone, the dtype of a search: more of them would hide one another."""
    lines = []
    radii = [radius for radius in distinct(found, "radius") if radius is not None]
    for network, colors in COLORS.items():
        for when, color in zip(distinct(found, "when"), colors, strict=True):
            own = matching(found, network=network, when=when, term="own")
            single, double = (
                [[getattr(m, quantity) for m in matching(own, dtype=dtype, radius=radius)] for radius in radii]
                for dtype in DTYPES
            )
            label = f"{network}, {when}"
            lines += axes.plot(radii, [median(v) for v in single], color=color, linewidth=2, label=label)
            axes.plot(radii, [median(v) for v in double], "--", color=color, linewidth=2)
            low, high = [min(v) for v in single], [max(v) for v in single]
            axes.fill_between(radii, low, high, color=color, alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel="radius of the probes")
    axes.axvline(PAPER_RADIUS, color="0.4", linewidth=0.8, linestyle=":")
    axes.text(PAPER_RADIUS, 1.01, "the paper's radius", transform=axes.get_xaxis_transform(), ha="center")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Finite differences of the architecture gradient against exact ones.")
    parser.add_argument("--seeds", type=int, default=5, help="how many pairs of learners per network (default 5)")
    parser.add_argument("--steps", type=int, default=60, help="training steps before the second measurement (60)")
    parser.add_argument("--quick", action="store_true", help="1 seed, 3 radii, 3 steps: only to see that it works")
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/finite-difference-radius.svg"))
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, but got {options.seeds}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors this small gain nothing from a second thread, and lose much on a busy machine
    try:
        quick = (1, 3, (1e-4, PAPER_RADIUS, 1.0), 8)
        found = run(*quick) if options.quick else run(options.seeds, options.steps, RADII, 32)
    finally:
        torch.set_num_threads(threads)
    print("\n".join(table(found)))
    draw(found, options.figure)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(m) for m in found], indent=0) + "\n")


if __name__ == "__main__":
    main()
