"""What the benchmark's network costs around a cell: in closed form, since every cell of the table is asked for it."""

from smallgroup.spaces.nas_bench_201.cell import Cell

CHANNELS, CELLS_PER_STAGE, SIZE, CLASSES, IMAGE_CHANNELS = 16, 5, 32, 10, 3
"""Of the network that the benchmark trains on CIFAR-10."""
_KERNELS = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
_STAGES = 3
_PER_WEIGHT = (CHANNELS * SIZE) ** 2
"""Multiply-adds of a 1x1 convolution in one cell: stages have twice the channels and half the size of the one before,
so it is the same in all."""


def benchmark_multiply_adds(cell: Cell) -> int:
    """Return the multiply-adds of the benchmark's network for one CIFAR-10 image.

    Counted as `smallgroup.spaces.count.multiply_adds` counts. Dead operations count: give `cell.pruned()` to leave them
    out.
    """
    weights = sum(_KERNELS.get(operation, 0) for operation in cell.operations)
    return _skeleton() + _STAGES * CELLS_PER_STAGE * _PER_WEIGHT * weights


def _skeleton() -> int:
    """Return the multiply-adds of everything around the cells."""
    # A 3x3 convolution on the whole image.
    stem = 9 * IMAGE_CHANNELS * CHANNELS * SIZE**2
    # Each reduction: a 3x3 convolution to twice the channels, one that keeps them, and a 1x1 shortcut to twice of
    # them, all with a quarter of the pixels: (9 * 2 + 9 * 4 + 2) / 4 times the multiply-adds of a 1x1 convolution.
    reductions = (_STAGES - 1) * _PER_WEIGHT * (9 * 2 + 9 * 4 + 2) // 4
    return stem + reductions + 4 * CHANNELS * CLASSES
