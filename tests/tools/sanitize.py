"""`python -m tests.tools.sanitize`: runs the C++ kernels on random shapes under the address sanitizer.

The kernels are compiled once more, with checks of every access to memory, and called in a process of their own, which
ends with a report at the first access outside of a tensor or buffer. Needs GCC and its libasan.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from smallgroup.kernels import library
from smallgroup.kernels.terms import EPSILON

FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"]


def main(arguments: list[str] | None = None) -> int:
    """Compile, run in a child, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.sanitize", description=__doc__)
    parser.add_argument("--shapes", type=int, default=1000, help="random shapes, each through every kernel")
    parser.add_argument("--seed", type=int, default=0, help="of the shapes")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the child
    asked = parser.parse_args(arguments)
    if asked.library is not None:
        run(asked.library, asked.shapes, asked.seed)
        return 0
    try:
        environment = environment_of_sanitizer()
    except OSError as error:
        raise SystemExit(f"error: {error}") from None
    with tempfile.TemporaryDirectory() as folder:
        print("Compiling the kernels with the address sanitizer.", flush=True)
        built = library.compile_into(Path(folder), FLAGS, environment)
        words = ["--library", str(built), "--shapes", str(asked.shapes), "--seed", str(asked.seed)]
        command = [sys.executable, "-m", "tests.tools.sanitize", *words]
        return subprocess.run(command, env=environment, check=False).returncode


def environment_of_sanitizer() -> dict[str, str]:
    """In which processes can load the kernels that were compiled so."""
    asked = [library.find_compiler(), "-print-file-name=libasan.so"]
    runtime = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(runtime).is_absolute():
        raise OSError("the address sanitizer needs libasan.so of GCC, but the compiler does not find it")
    # Python and torch release much of their memory never; the sanitizer must not take that for leaks.
    return {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "2"}


def run(built: Path, shapes: int, seed: int) -> None:
    """Call every kernel on random shapes, in both precisions."""
    torch.ops.load_library(str(built))  # type: ignore[no-untyped-call]
    chance = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    for number in range(shapes):
        torch.set_num_threads(chance.choice([1, 2]))
        _Shape(chance, generator).call_all()
        if (number + 1) % 100 == 0:
            print(f"{number + 1} shapes", flush=True)
    print(f"{shapes} shapes through {len(_KERNELS)} kernels: no access outside of their memory", flush=True)


_KERNELS = (
    *("units_forward", "units_backward", "pool_forward", "pool_backward"),
    *("mix_forward", "mix_into", "mix_backward", "statistics"),
    *("cell_forward", "cell_backward"),
    *("stem_forward", "stem_backward", "head_forward", "head_backward", "reduction_forward", "reduction_backward"),
)


class _Shape:
    """One random size of images, and random layers and terms on it."""

    def __init__(self, chance: random.Random, generator: torch.Generator) -> None:
        self.chance, self.generator = chance, generator
        self.dtype = chance.choice([torch.float32, torch.float64])
        self.n, self.c = chance.randrange(1, 5), chance.randrange(1, 38)
        self.h, self.w = chance.randrange(1, 18), chance.randrange(1, 18)
        self.stride = chance.choice([1, 1, 1, 2, 2, 3])

    def call_all(self) -> None:
        """Forward and backward, in the order in which networks do it."""
        kernels = torch.ops.smallgroup
        self._units()
        x = self._images(self.c, self.h, self.w)
        for average in (False, True):
            y, statistics, chosen = kernels.pool_forward(x, self.stride, average, EPSILON)
            kernels.pool_backward(self._random(*y.shape), x, self.stride, chosen)
            self._mixture([y, self._images(*y.shape[1:])], [statistics, self._empty()])
        kernels.statistics(x, EPSILON)
        self._cell()
        self._blocks()

    def _units(self) -> None:
        kernels, chance = torch.ops.smallgroup, self.chance
        inputs, units = chance.randrange(1, 4), chance.randrange(1, 5)
        xs = [self._images(self.c, self.h, self.w) for _ in range(inputs)]
        normed = [chance.random() < 0.5 for _ in xs]
        statistics = [
            kernels.statistics(x, EPSILON) if norm else self._empty() for x, norm in zip(xs, normed, strict=True)
        ]
        affines = [self._random(2, self.c) if norm and chance.random() < 0.5 else self._empty() for norm in normed]
        sources = [chance.randrange(inputs) for _ in range(units)]
        widths = [chance.choice([0, 0, 3, 5, 7]) for _ in range(units)]
        filters = [self._random(self.c, 1, k, k) if k else self._empty() for k in widths]
        matrices = [self._random(chance.randrange(1, 38), self.c, 1, 1) for _ in range(units)]
        dilations = [chance.randrange(1, 4) for _ in range(units)]
        layers = (sources, filters, matrices, dilations, self.stride)
        relu = chance.random() < 0.7
        ys, found = kernels.units_forward(xs, statistics, affines, relu, *layers, EPSILON)
        gradients = [self._images(*y.shape[1:]) for y in ys]
        coefficients = [self._random(4, y.shape[1]) for y in ys]
        weights = [self._random(chance.choice([1, self.n])) for _ in ys]
        of_weights = chance.random() < 0.7
        sums = (gradients, ys, coefficients, weights)
        kernels.units_backward(*sums, xs, statistics, affines, relu, *layers, of_weights)
        dense = [self._random(*y.shape) for y in ys]
        kernels.units_backward(dense, [], [], [], xs, statistics, affines, relu, *layers, of_weights)
        for y, one in zip(ys, found, strict=True):
            self._mixture([y], [one])

    def _cell(self) -> None:
        kernels, chance = torch.ops.smallgroup, self.chance
        inputs, nodes = chance.randrange(1, 3), chance.randrange(1, 4)
        xs = [self._random(self.n, self.c, self.h, self.w) for _ in range(inputs)]
        matrices = [self._random(self.c, self.c, k, k) for k in chance.choices([1, 3], k=chance.randrange(0, 6))]
        pairs = [(source, node) for node in range(inputs, inputs + nodes) for source in range(node)]
        first = [(0, node) for node in range(inputs, inputs + nodes) if chance.random() < 0.9] or [(0, inputs)]
        terms = [(*pair, chance.randrange(-2, len(matrices))) for pair in [*first, *chance.choices(pairs, k=6)]]
        numbers = [number for term in terms for number in term]
        cell = (matrices, self._random(len(terms)), numbers)
        made, *kept = kernels.cell_forward(xs, *cell, nodes, EPSILON)
        gradients = [self._random(*y.shape) if chance.random() < 0.7 else self._empty() for y in made]
        wanted = [chance.randrange(0, 2) for _ in xs]
        kernels.cell_backward(gradients, xs, made, *kept, *cell, wanted, chance.random() < 0.7)

    def _blocks(self) -> None:
        kernels, chance, outputs = torch.ops.smallgroup, self.chance, self.chance.randrange(1, 38)
        x = self._random(self.n, self.c, self.h, self.w)
        norm, wanted, of_weights = (self._random(outputs), self._random(outputs)), *chance.choices([False, True], k=2)
        stem = (self._random(outputs, self.c, 3, 3), *norm)
        y, *kept = kernels.stem_forward(x, *stem, EPSILON)
        kernels.stem_backward(self._random(*y.shape), x, *kept, *stem, wanted)
        own = (self._random(self.c), self._random(self.c))
        means, statistics = kernels.head_forward(x, *own, EPSILON)
        kernels.head_backward(self._random(*means.shape), x, statistics, *own)
        square, past = self._random(outputs, outputs, 3, 3), self._random(outputs, self.c, 1, 1)
        parameters = [*stem, square, *norm, past]
        y, *kept = kernels.reduction_forward(x, parameters, EPSILON)
        kernels.reduction_backward(self._random(*y.shape), x, parameters, kept, wanted, of_weights)

    def _mixture(self, ys: list[Tensor], statistics: list[Tensor]) -> None:
        kernels, chance, like = torch.ops.smallgroup, self.chance, ys[0]
        affines = [
            self._random(2, like.shape[1]) if one.numel() and chance.random() < 0.5 else self._empty()
            for one in statistics
        ]
        weights = self._random(*([self.n] if chance.random() < 0.5 else []), len(ys))
        terms = (ys, statistics, affines, weights)
        kernels.mix_forward(*terms)
        kernels.mix_into(self._images(*like.shape[1:]), *terms)
        kernels.mix_backward(self._images(*like.shape[1:]), *terms, [chance.randrange(0, 2) for _ in ys])

    def _random(self, *size: int) -> Tensor:
        """Dense; images in channels_last layout."""
        made = torch.randn(size, generator=self.generator, dtype=self.dtype)
        # A channels_last tensor of its own: of some sizes the layouts cannot be told apart.
        images = len(size) == 4 and size[1] > 1 and size[2:] != (1, 1)
        return made.contiguous(memory_format=torch.channels_last) if images else made

    def _images(self, c: int, h: int, w: int) -> Tensor:
        """Dense images, or a slice of the channels of wider ones, in memory that ends with them."""
        if w == 1 or h == 1 or self.chance.random() < 0.5:
            return self._random(self.n, c, h, w)
        before = self.chance.randrange(1, 10)
        return self._random(self.n, before + c, h, w)[:, before:]

    def _empty(self) -> Tensor:
        return torch.empty(0, dtype=self.dtype)


if __name__ == "__main__":
    sys.exit(main())
