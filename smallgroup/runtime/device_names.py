"""Names of devices, and what can be said of them before torch is loaded, which takes seconds."""

import re
import sys
from importlib import metadata

AUTO = "auto"
TAKEN = "auto|cpu|cuda|cuda:1|mps"
"""What options take, as help texts say it."""
_NAME = re.compile(r"auto|cpu|mps|cuda(:\d{1,2})?")


class NoDeviceError(ValueError):
    """A device was asked for that is not there."""


def check_device_name(name: str) -> str:
    """Return the name of a device, or say what a name is."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a device must be auto, cpu, cuda, cuda:N or mps, but got {name[:40]!r}")
    return name


def check_possible(name: str) -> None:
    """Refuse a device that this system, or the torch that is installed, cannot have."""
    if name == "mps" and sys.platform != "darwin":
        raise NoDeviceError(f"device mps must be available, but it exists on macOS only and this is {sys.platform}")
    if name.startswith("cuda") and (version := metadata.version("torch")).endswith("+cpu"):
        raise NoDeviceError(
            f"device {name} must be available, but torch {version} is built for the CPU only; install a torch "
            "for CUDA, or use --device cpu"
        )
