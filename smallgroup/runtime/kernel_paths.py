"""The names of the ways to compute a network, see `smallgroup.kernels`; known before torch is loaded."""

from typing import Literal, get_args

Path = Literal["plain", "torch", "native"]
PATHS: tuple[str, ...] = get_args(Path)
AUTO = "auto"
"""The best that there is."""
