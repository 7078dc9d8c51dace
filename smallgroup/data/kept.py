"""Images that were made once are kept in memory, if all of them would fit: decoding costs a small network much time."""

from collections.abc import Callable

import torch
from torch import Tensor

MOST = 2**28
"""Bytes that a set of images may take, 256 MB: 87,000 of 32x32 pixels in color."""


class Kept:
    """One uint8 tensor of a whole set, filled as images are asked for."""

    def __init__(self, number: int, channels: int, size: int) -> None:
        self._images = torch.empty(number, channels, size, size, dtype=torch.uint8)
        self._known = torch.zeros(number, dtype=torch.bool)

    @staticmethod
    def fits(number: int, channels: int, size: int) -> bool:
        """Return whether so many images fit into memory."""
        return number * channels * size * size <= MOST

    def get(self, indices: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
        """Return images by place; call `make` for those that are asked for the first time."""
        missing = indices[~self._known[indices]]
        if len(missing):
            self._images[missing] = make(missing)
            self._known[missing] = True
        return self._images.index_select(0, indices)
