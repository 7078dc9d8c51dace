"""Which path is in use: chosen for a block of code, or the best there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from smallgroup.kernels import grouped, library, native, pure
from smallgroup.kernels.terms import Backend, Blocks
from smallgroup.runtime import precision
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.kernel_paths import AUTO, PATHS, KernelPath

_chosen: ContextVar[KernelPath | None] = ContextVar("kernels", default=None)
_BACKENDS: dict[KernelPath, Backend] = {"torch": pure.PURE, "native": native.NATIVE}


def available() -> tuple[KernelPath, ...]:
    """Return the paths of this machine; the first call compiles the kernels, if that was not done before."""
    return ("plain", "torch", "native") if library.load() is None else ("plain", "torch")


def best() -> KernelPath:
    """Return the fastest kernel path that works on this machine."""
    return "native" if library.load() is None else "torch"


def current() -> KernelPath:
    """Return the kernel path in use."""
    return _chosen.get() or best()


def describe(path: KernelPath) -> str:
    """Return the path as results record it, with everything its bits depend on."""
    return f"native {library.identity()}" if path == "native" else path


def in_words(path: KernelPath) -> str:
    """Return the path as people are told about it and, if it is not the fastest one, why not."""
    if path == "torch" and (problem := library.load()) is not None:
        return f"torch's, because native kernels are not available: {problem}"
    return {"plain": "torch's, layer by layer", "torch": "torch's", "native": "native, compiled on this machine"}[path]


@contextmanager
def using(path: str = AUTO) -> Iterator[KernelPath]:
    """Compute on this path; `auto` is the best there is."""
    check_choice("kernels", path, (AUTO, *PATHS))
    chosen: KernelPath = best() if path == AUTO else path  # type: ignore[assignment]  # checked above
    if chosen == "native":
        library.require()
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)


def backend_for(x: Tensor) -> Backend | None:
    """Return the functions for images like these; None for the plain path.

    Kernels of our own are for the CPU: every other device has the path of torch's operators. Forward-mode
    differentiation, half precision, empty batches and tensors without values have the plain path only. Learners of a
    search in bfloat16 have the path of torch's operators on other devices than the CPU.
    """
    if not x.numel() or x.device.type == "meta" or forward_ad._current_level >= 0:
        return None
    if x.device.type != "cpu" and precision.current() == "bfloat16":
        return None if current() == "plain" else grouped.GROUPED
    if x.dtype not in (torch.float32, torch.float64) or _is_autocast(x.device.type):
        return None
    path = current()
    if x.device.type != "cpu":
        return None if path == "plain" else grouped.GROUPED
    return _BACKENDS.get(path)


def blocks_for(x: Tensor) -> Blocks | None:
    """The blocks that are computed in one call for images like these; None: layer by layer."""
    backend = backend_for(x)
    return None if backend is None else backend.blocks


def _is_autocast(device: str) -> bool:
    """Return whether torch picks precisions for a type of device; for some it cannot."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
