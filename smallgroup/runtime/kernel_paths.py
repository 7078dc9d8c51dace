"""The names of the ways to compute a network, see `smallgroup.kernels`; known before torch is loaded."""

from typing import Literal, get_args

KernelPath = Literal["plain", "torch", "native"]
PATHS: tuple[str, ...] = get_args(KernelPath)
AUTO = "auto"
"""The setting that takes the fastest path of the machine."""
