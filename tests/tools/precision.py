"""How far the terms of the architecture gradient in a lower precision are from the exact ones in float64.

    python -m tests.tools.precision [SEEDS]

prints, per space, precision and term of finite differences, |g - r| / |r|: the median over seeds and the largest, first
with r exact in float64, then with r the same finite differences in float64, which leaves the rounding errors alone. The
direct term is that of first order. Two learners, small networks, weights after a few steps.
TF32 is emulated: inputs of convolutions and matrix products are rounded to 10 bits behind the binary point, forward and
backward, and are summed in float32.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from smallgroup import kernels
from smallgroup.group import Learner, SmallGroup
from smallgroup.group.hypergradients import Hypergradient
from smallgroup.methods import METHODS, Relaxed
from smallgroup.runtime import precision, stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.precision_names import Precision
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space

IMAGES = ImageSpec(4, 3, 8)
SPACES: dict[str, Space] = {
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES),
    "darts": DartsSpace(channels=4, cells=3, images=IMAGES),
}
TERMS = ("direct", "own", "cross", "label")
STEPS, BATCH = 3, 16
WAYS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")


class Tf32(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds what goes into products to the precision of TF32."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func._schema.name.partition("::")[2]
        if name in ("convolution", "convolution_backward", "mm", "addmm", "bmm"):
            args = tree_map(rounded, args)
        return func(*args, **(kwargs or {}))


def rounded(value: Any) -> Any:
    """A float32 tensor with 10 bits behind the binary point, to the nearest."""
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return value
    bits = value.view(torch.int32) if value.is_contiguous() else value.contiguous().view(torch.int32)
    result = ((bits + 0x1000) & -0x2000).view(torch.float32)
    # In the layout that it had: another one has other kernels.
    return torch.empty_like(value).copy_(result)


@contextmanager
def computed_in(way: Precision) -> Iterator[None]:
    """Passes in a precision, on any machine."""
    with Tf32() if way == "tf32" else nullcontext():  # type: ignore[no-untyped-call]
        if way == "bfloat16":
            with precision.using("bfloat16", torch.device("cpu")):
                yield
        else:
            yield


def batch(seed: int, number: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Images that tell a little of their labels."""
    x = torch.randn(2 * BATCH, 3, 8, 8, generator=stream("precision", seed, number), dtype=torch.float64)
    y = torch.randint(4, (2 * BATCH,), generator=stream("labels", seed, number))
    return (x + y.view(-1, 1, 1, 1) / 2).to(dtype), y


def trained(space: Space, seed: int) -> list[Learner]:
    """Two learners after a few steps, in float64."""
    made = []
    for k in range(2):
        relaxed = Relaxed(space, METHODS["darts"](), seed=seed, learner=k)
        v, w = (relaxed.initial_weights(role, dtype=torch.float64) for role in "vw")
        made.append(Learner(relaxed, relaxed.initial_architecture(dtype=torch.float64), v, w))
    group = SmallGroup(made, hypergradient="first-order")
    for number in range(STEPS):
        x, y = batch(seed, number, torch.float64)
        group.step((x[:BATCH], y[:BATCH]), x[:BATCH].flip(3), (x[BATCH:], y[BATCH:]))
    return made


def terms_of(
    learners: Sequence[Learner], seed: int, dtype: torch.dtype, hypergradient: Hypergradient, way: Precision
) -> dict[str, Tensor]:
    """The terms at the same weights, but for their precision; both learners in one vector."""
    copies = [
        Learner(
            one.apply,
            *(
                {name: t.detach().to(dtype) for name, t in part.items()}
                for part in (one.architecture, one.v or {}, one.w)
            ),
        )
        for one in learners
    ]
    x, y = batch(seed, STEPS, dtype)
    with computed_in(way):
        parts = SmallGroup(copies, hypergradient=hypergradient).architecture_gradients(
            (x[:BATCH], y[:BATCH]), x[:BATCH].flip(3), (x[BATCH:], y[BATCH:]), parts=True
        )
    return {term: torch.cat([t.double().flatten() for one in parts for t in one[term].values()]) for term in TERMS}


def errors_of(space: str, seed: int) -> dict[tuple[str, str], tuple[float, float]]:
    """By way and term, the relative error against the exact term, and against the same way in float64."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    with kernels.using("plain"):
        learners = trained(SPACES[space], seed)
        exact = terms_of(learners, seed, torch.float64, "exact", "float32")
        same = terms_of(learners, seed, torch.float64, "finite-difference", "float32")
        for way in WAYS:
            terms = terms_of(learners, seed, torch.float32, "finite-difference", way)
            for term in TERMS:
                to_exact, to_same = (
                    float((terms[term] - own[term]).norm() / own[term].norm()) for own in (exact, same)
                )
                found[way, term] = to_exact, to_same
    return found


def main() -> None:
    """Print the table."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    for space in SPACES:
        every = [errors_of(space, seed) for seed in seeds]
        for way, term in every[0]:
            numbers = [[errors[way, term][i] for errors in every] for i in (0, 1)]
            shown = "  ".join(f"{statistics.median(values):.1e} {max(values):.1e}" for values in numbers)
            print(f"{space:14} {way:9} {term:7} {shown}", flush=True)


if __name__ == "__main__":
    main()
