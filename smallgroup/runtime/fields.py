"""Random numbers of the size of images, computed where they are needed: the same on every device, and never sent.

They are those of SplitMix64 (Steele, Lea and Flood, 2014), which is a function of a key and of a counter: every number
is computed by itself, in operations on whole numbers. A generator of main memory gives the key, which is all that goes
to a device, as an argument of an operator. That takes as long on a CPU as torch's own generator.
"""

import math

import torch
from torch import Tensor

_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_BITS = 24
"""Of a float32 between 0 and 1."""


def draw_uniform(shape: torch.Size | tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Return float32 numbers in [0, 1) on a device, by the next number of a generator of main memory."""
    return _whole_numbers(shape, generator, device).float().mul_(2.0**-_BITS)


def draw_normal(shape: torch.Size | tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Return float32 numbers of N(0, 1) on a device; where devices round otherwise, they differ in the last bits.

    2^24 different ones, at most 5.4 from zero.
    """
    middles = _whole_numbers(shape, generator, device).mul_(2).add_(1 - 2**_BITS)  # odd, so never zero or one
    return middles.float().mul_(2.0**-_BITS).erfinv_().mul_(math.sqrt(2))


def words(count: int, key: int, device: torch.device) -> Tensor:
    """Return so many numbers of 64 bits as int64: what SplitMix64 gives from a seed."""
    z = torch.arange(1, count + 1, device=device).mul_(_signed(_STEP)).add_(_signed(key % 2**64))
    # The shifts and factors are those of the published generator; other ones would give other bits.
    z ^= _shifted(z, 30)
    z *= _signed(_FIRST)
    z ^= _shifted(z, 27)
    z *= _signed(_SECOND)
    z ^= _shifted(z, 31)
    return z


def _whole_numbers(shape: torch.Size | tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Return numbers of 24 bits, two from every word."""
    count = math.prod(shape)
    key = int(torch.randint(-(2**63), 2**63 - 1, (), generator=generator))
    halves = words((count + 1) // 2, key, device).view(torch.int32)[:count]
    return torch.bitwise_and(halves, 2**_BITS - 1).view(shape)


def _shifted(z: Tensor, places: int) -> Tensor:
    """Move bits to the right, zeros after them: torch would repeat the sign."""
    return (z >> places).bitwise_and_(2 ** (64 - places) - 1)


def _signed(number: int) -> int:
    """Return the int64 of the same 64 bits."""
    return number - 2**64 if number >= 2**63 else number
