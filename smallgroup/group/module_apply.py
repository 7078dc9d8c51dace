"""Any `nn.Module` as the pure function of a learner."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.group.tensors import Tensors
from smallgroup.runtime import Phase, seed_of


class ModuleApply:
    """The `apply` of an `nn.Module` whose weights and architecture are its parameters, passed in by name.

    It makes any module pure: buffers (running statistics) are updated on copies that are thrown away, and
    what the module draws from torch's global generator (dropout) is replayed per (seed, step, phase), the
    generator itself left as it was.
    """

    def __init__(self, module: nn.Module, *, seed: int = 0) -> None:
        self.module = module
        self.seed = seed
        self.step = 0
        self.draws = False
        """Whether the module was seen to draw random numbers."""

    def check_names(self, weights: Tensors, architecture: Tensors) -> None:
        """Refuse tensors that the module would silently leave aside."""
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
        """Make the random numbers those of iteration `step`."""
        self.step = step

    def __call__(
        self, weights: Tensors, architecture: Tensors, inputs: Tensor, *, phase: Phase | None = None
    ) -> Tensor:
        """The module's output with the given tensors in place of its own."""
        state = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        with _replayed(inputs.device, seed_of(self.seed, self.step, phase)):
            before = torch.get_rng_state()
            logits: Tensor = functional_call(self.module, {**state, **weights, **architecture}, (inputs,))
            self.draws = self.draws or not torch.equal(before, torch.get_rng_state())
        return logits


@contextmanager
def _replayed(device: torch.device, seed: int) -> Iterator[None]:
    """Torch's global generators, seeded for a while and then put back where they were.

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
