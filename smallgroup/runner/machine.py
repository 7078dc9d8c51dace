"""What a run computes on: threads, device, precision and kernels, for as long as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from smallgroup import kernels
from smallgroup.runner.config import RunConfig
from smallgroup.runtime import precision
from smallgroup.runtime.allocator import keep_memory
from smallgroup.runtime.device import choose_device, using
from smallgroup.runtime.environment import threads


@contextmanager
def machine(run: RunConfig, before: str | None = None) -> Iterator[torch.device]:
    """Set torch's threads, our device and our kernels inside the context, and restore them.

    `before` is the device of the run that is resumed, if one is.
    """
    keep_memory()
    device = choose_device(run.device, before)
    with (
        threads(run.threads),
        using(device),
        precision.using(run.precision, device),
        kernels.using(_path_on(device, run.kernels)),
    ):
        yield device


def _path_on(device: torch.device, path: str) -> str:
    """Return the kernel path for a device: our kernels are for the CPU."""
    if device.type == "cpu" or path in ("torch", "plain"):
        return path
    if path == "native":
        raise ValueError(f"run.kernels=native needs the CPU, but the device is {device}; take auto or torch")
    return "torch"
