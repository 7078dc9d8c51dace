"""What the numbers of a bench depend on: the device, and what is printed above every table."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from smallgroup.runtime import device, precision
from smallgroup.runtime.environment import Environment
from smallgroup.runtime.precision_names import FULL


@contextmanager
def measuring_on(where: torch.device) -> Iterator[None]:
    """Compute on a device as a search with default settings does."""
    with device.using(where), precision.using(FULL, where):
        yield


def head(path: str) -> dict[str, Any]:
    """Return threads, torch, the processor with the instructions in use, the path and the device."""
    now = Environment.current(path, device=device.describe_device(device.current()))
    return {"threads": now.threads, "torch": now.torch, "cpu": now.cpu, "path": now.kernels, "device": now.device}
