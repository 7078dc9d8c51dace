"""How much memory a search will take, before it takes it."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from smallgroup.data.loader import resident_bytes
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.learners import Searcher
from smallgroup.runtime.device import memory_held
from smallgroup.runtime.memory import memory_in_use

_COPIES = 10
"""Of V and W together, in sizes of W: values, momentum, the state before the step, gradients, probes."""
_BACKWARD = 1.5
"""What a pass takes at its peak, over what it keeps for the way back: 1.2 to 2 in the built-in spaces."""
_TANGENTS = 3.0
"""The same of forward over reverse mode, over a plain pass."""
_KERNELS = 30 * 2**20
"""Bytes that torch takes once, at the first step."""
_PROBE = 2
"""Images of the pass that is measured."""


def expected_memory(job: SearchJob) -> int:
    """Return the expected peak bytes of a step: current memory, weights and their copies, and the largest pass.

    On another device than the CPU, those of its tensors there, with the images that are going to stay there; what its
    libraries take is not counted.

    The activations of one learner live at a time, so that more learners cost their weights alone. Right to about a
    fifth on a CPU.
    """
    weights = sum(_bytes(searcher.learner.w.values()) for searcher in job.searchers)
    sizes = job.config.batch_size
    images = max(sizes.train, sizes.unlabeled, sizes.validation)
    passes = max(activations(searcher) for searcher in job.searchers) * images
    factor = _BACKWARD * (_TANGENTS if job.config.hypergradient == "exact" else 1.0)
    return _held(job, 2 * weights) + (_COPIES - 2) * weights + int(factor * passes)


def _held(job: SearchJob, values: int) -> int:
    """Bytes before the first step; `values` are those of V and W, where a device does not say what it holds."""
    if job.device.type == "cpu":
        return memory_in_use() + _KERNELS
    images = resident_bytes([each.images for each in (job.train, job.unlabeled, job.validation)], job.device)
    return max(memory_held(job.device), values) + images


def activations(searcher: Searcher) -> int:
    """Return the bytes that a pass keeps for its backward pass, per image, counted on a pass of two images."""
    learner, shape = searcher.learner, searcher.relaxed.space.images.shape
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


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
