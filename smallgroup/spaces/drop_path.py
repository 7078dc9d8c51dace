"""Drop path: in training, each image does without some of the operations.

What is dropped is a function of a key, such as (seed, epoch, step), and of nothing else: a run that is resumed in the
middle of an epoch, or a pass that is computed again, drops the same. The global generators are not used.
"""

import torch
from torch import Tensor

from smallgroup.runtime import stream

Key = tuple[int | str | None, ...]


def draw_paths(images: int, edges: int, probability: float, key: Key) -> Tensor:
    """Draw the factors of each edge's term for each image, [images, edges]: 0, or 1 / (1 - p) to keep the mean.

    Drawn at once, on the CPU and in float64 whatever the network computes in: the same paths on every device.
    """
    if not isinstance(key, tuple):
        raise TypeError(f"the key of a pass must be a tuple, such as (seed, epoch, step), but got {type(key).__name__}")
    generator = stream(*key, "drop-path")
    uniform = torch.rand(images, edges, generator=generator, dtype=torch.float64, device="cpu")
    return (uniform >= probability).double() / (1 - probability)


def through(term: Tensor, kept: Tensor) -> Tensor:
    """Multiply the term of an edge, [n, c, h, w], by one number per image."""
    return term * kept.to(term.dtype)[:, None, None, None]
