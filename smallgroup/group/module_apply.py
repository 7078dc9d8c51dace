"""Any `nn.Module` as the pure function of a learner."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from smallgroup.group.inputs import Inputs, is_one_object, to_device
from smallgroup.group.tensors import Tensors
from smallgroup.runtime import Phase, seed_of

StatisticsBatch = Inputs | Sequence[Any]
"""Inputs as one object or a dictionary, or a pair of inputs and labels; labels are not used."""


class ModuleApply:
    """The `apply` of an `nn.Module` whose weights and architecture are its parameters, passed in by name.

    A dictionary of inputs is passed to the module as keyword arguments, a tuple or list as positional ones, anything
    else, a `PackedSequence` too, as its one argument. `output` takes the tensor out of what a module returns:
    `ModuleApply(model, output=attrgetter("logits"))`.

    It makes any module pure: buffers (running statistics) are updated on copies that are thrown away, and
    what the module draws from torch's global generator (dropout) is replayed per (seed, step, phase), the
    generator itself left as it was. The module stays in the mode it is in, so in training mode dropout is on in every
    phase, "val" included. **To evaluate, use `trained`**: a module in eval mode, running statistics included.
    """

    def __init__(self, module: nn.Module, *, seed: int = 0, output: Callable[[Any], Tensor] | None = None) -> None:
        self.module = module
        self.output = output
        self.seed = seed
        self.step = 0
        self.draws = False
        """Whether the module was seen to draw random numbers."""

    def check_names(self, weights: Tensors, architecture: Tensors) -> None:
        """Refuse tensors that the module has no parameter for and would ignore."""
        known = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        for name in (*weights, *architecture):
            if name not in known:
                raise ValueError(
                    f"weights and architecture must be named like parameters of the module, but it has no {name!r}"
                )
        for name in weights:
            if name in architecture:
                raise ValueError(f"a parameter must be weight or architecture, but {name!r} is both")

    def begin_step(self, step: int) -> None:
        """Seed the random numbers for iteration `step`."""
        self.step = step

    def __call__(
        self, weights: Tensors, architecture: Tensors, inputs: Inputs, *, phase: Phase | None = None
    ) -> Tensor:
        """Return the module's output with the given tensors in place of its own."""
        state = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        arguments, named = _arguments(inputs)
        with _replayed(next(iter(weights.values())).device, seed_of(self.seed, self.step, phase)):
            before = torch.get_rng_state()
            found = functional_call(self.module, {**state, **weights, **architecture}, arguments, named)
            self.draws = self.draws or not torch.equal(before, torch.get_rng_state())
        outputs: Tensor = found if self.output is None else self.output(found)
        return outputs

    def trained(
        self, weights: Tensors, architecture: Tensors, batches: Iterable[StatisticsBatch] | None = None
    ) -> nn.Module:
        """Return a copy of the module in eval mode with the given tensors and with running statistics to match.

        The passes of a group keep no running statistics, so they are estimated here: the average over `batches`, each
        passed once through the module as the group does it, without gradients. Layers that were put into eval mode
        keep theirs, and so do other buffers than running statistics. The module itself is not changed.

        Args:
            weights: `learner.v` or `learner.w`.
            architecture: `learner.architecture`.
            batches: inputs as a tensor, a `PackedSequence` or a dictionary, or pairs of inputs (of any form) and
                labels, such as a `DataLoader` gives. A module without running statistics needs none.
        """
        self.check_names(weights, architecture)
        module = deepcopy(self.module)
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, tensor in {**weights, **architecture}.items():
                if tensor.shape != own[name].shape:
                    expected, found = list(own[name].shape), list(tensor.shape)
                    raise ValueError(f"{name!r} must have the module's shape {expected}, but it has {found}")
                own[name].copy_(tensor)
        norms = {
            name: layer
            for name, layer in module.named_modules()
            if isinstance(layer, _NormBase) and layer.training and layer.running_mean is not None
        }
        if norms and batches is None:
            raise ValueError(
                "a module with running statistics must be given batches to estimate them from, but there are none and "
                f"its layer {next(iter(norms))!r} has such statistics"
            )
        if norms and batches is not None:
            self._estimate(module, list(norms.values()), batches)
        return module.eval()

    def _estimate(self, module: nn.Module, norms: Sequence[_NormBase], batches: Iterable[StatisticsBatch]) -> None:
        """Set the running statistics of some layers to their average over batches."""
        momenta, count, device = [norm.momentum for norm in norms], 0, next(norms[0].buffers()).device
        for norm in norms:
            norm.reset_running_stats()
        for count, batch in enumerate(batches, start=1):
            inputs = to_device(batch if is_one_object(batch) or isinstance(batch, Mapping) else batch[0], device)
            arguments, named = _arguments(inputs)
            for norm in norms:
                # None is torch's cumulative average, right also for a layer used twice; instance norms ignore it.
                norm.momentum = None if isinstance(norm, _BatchNorm) else 1 / count
            with torch.no_grad(), _replayed(device, seed_of(self.seed, "statistics", count)):
                module(*arguments, **named)
        if not count:
            raise ValueError("running statistics must be estimated from at least one batch, but batches is empty")
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def _arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs as the positional and the keyword arguments of a module."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list) and not is_one_object(inputs):
        return tuple(inputs), {}
    return (inputs,), {}


@contextmanager
def _replayed(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's global generators for a while, and then restore them.

    Each is seeded by itself: `torch.manual_seed` would also note a call, with its traceback, for every GPU to come.
    """
    generators = [torch.default_generator]
    if device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index or 0])
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
