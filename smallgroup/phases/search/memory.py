"""How much memory a search will take, before it takes it."""

import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.learners import Searcher

_COPIES = 10
"""Of V and W together, in sizes of W: values, momentum, the state before the step, gradients, probes."""
_BACKWARD = 1.5
"""What a pass takes at its peak, over what it keeps for the way back: 1.2 in the DARTS space, 2 in NAS-Bench-201."""
_TANGENTS = 3.0
"""The same of forward over reverse mode, over a plain pass."""
_KERNELS = 30 * 2**20
"""Bytes that torch takes once, at the first step."""
_PROBE = 2
"""Images of the pass that is measured."""


class OutOfMemory(RuntimeError):
    """A step does not fit; the message says what to lower."""


@contextmanager
def memory_explained() -> Iterator[None]:
    """Say what to lower when memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        words = str(error)
        short = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not short and "can't allocate memory" not in words and "not enough memory" not in words:
            raise
        told = OutOfMemory(
            "memory ran out; lower search.batch_size (train, unlabeled, validation), space.channels or "
            "space.cells, or take --hypergradient first-order"
        )
        for note in getattr(error, "__notes__", ()):
            told.add_note(note)
        raise told from error


def expected_memory(job: SearchJob) -> int:
    """Bytes at the peak of a step: what the process has now, weights and their copies, and the largest pass.

    The activations of one learner live at a time, so that more learners cost their weights alone. Right to about a
    fifth on a CPU.
    """
    weights = sum(_bytes(searcher.learner.w.values()) for searcher in job.searchers)
    sizes = job.config.batch_size
    images = max(sizes.train, sizes.unlabeled, sizes.validation)
    passes = max(activations(searcher) for searcher in job.searchers) * images
    factor = _BACKWARD * (_TANGENTS if job.config.hypergradient == "exact" else 1.0)
    return memory_in_use() + _KERNELS + (_COPIES - 2) * weights + int(factor * passes)


def activations(searcher: Searcher) -> int:
    """Bytes that a pass keeps for its backward pass, per image: counted on a pass of two images."""
    learner, shape = searcher.learner, searcher.relaxed.space.image_shape
    own = {tensor.untyped_storage().data_ptr() for tensor in (*learner.w.values(), *learner.architecture.values())}
    kept: dict[int, int] = {}
    alive: list[Tensor] = []  # so that no address is used twice while we count

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    leaves = {name: tensor.detach().requires_grad_() for name, tensor in learner.w.items()}
    example = next(iter(leaves.values()))
    images = torch.zeros((_PROBE, *shape), dtype=example.dtype, device=example.device)
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        searcher.relaxed(leaves, learner.architecture, images)
    return sum(kept.values()) // _PROBE


def memory_in_use() -> int:
    """Bytes that the process has now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return peak_memory()


def peak_memory() -> int:
    """The most bytes that the process ever had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # elsewhere the system counts in kilobytes


def available_memory() -> int | None:
    """Bytes that the machine can still give, if it says so."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
