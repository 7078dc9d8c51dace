"""One learner: an architecture, two sets of weights, and the pure function that uses them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.group.tensors import Tensors, copies
from smallgroup.runtime import Phase, seed_of

Labeller = Callable[[Tensor], Tensor]
"""A frozen labeller: inputs to logits."""


class Apply(Protocol):
    """What a learner computes: `apply(weights, architecture, inputs, *, phase=None) -> logits`, a pure function.

    A three-argument function does as well. If something in it is random, `apply` is an object that also has
    `begin_step(step)`: the group calls it at the start of every iteration, and until the next call all passes
    of one phase must use the same random numbers, a function of (step, phase) alone.
    """

    def __call__(
        self, weights: Tensors, architecture: Tensors, inputs: Tensor, *, phase: Phase | None = None
    ) -> Tensor:
        """Logits, one row per input."""
        ...


class Learner:
    """A learner k of the paper: architecture `A_k`, first weights `V_k`, second weights `W_k`.

    The tensors are stepped in place and keep their identity. `architecture` may be empty (a fixed
    architecture: the learner only teaches and learns), `v` may be None where no first stage is run.
    A step uses the tensors' `.grad` and leaves it None.
    """

    def __init__(
        self, apply: Apply | Callable[..., Tensor], architecture: Tensors, v: Tensors | None, w: Tensors
    ) -> None:
        if not callable(apply):
            raise TypeError(f"apply must be a function of (weights, architecture, inputs), but it is {_kind(apply)}")
        self.apply = apply
        self.architecture = _checked("architecture", architecture, may_be_empty=True)
        self.w = _checked("w", w)
        self.v = None if v is None else _checked("v", v)
        if self.v is not None:
            _check_alike(self.v, self.w)
        if isinstance(apply, ModuleApply):
            apply.check_names(self.w, self.architecture)
        self._knows_phase = _takes_phase(apply)

    def begin_step(self, step: int) -> None:
        """Bind the random numbers of iteration `step`, if there are any."""
        begin_step(self.apply, step)

    def logits(self, weights: Tensors, architecture: Tensors, inputs: Tensor, phase: Phase) -> Tensor:
        """f(weights, architecture, inputs), checked to be one row of class scores per input."""
        inputs = inputs.to(self.device)
        options: dict[str, Any] = {"phase": phase} if self._knows_phase else {}
        return checked_logits(self.apply(weights, architecture, inputs, **options), inputs, "apply")

    def frozen(self) -> "Frozen":
        """A labeller that stays what this learner is now: a finished search that teaches others."""
        return Frozen(self)

    @property
    def device(self) -> torch.device:
        """Where the learner computes: the device of its weights."""
        return next(iter(self.w.values())).device


class Frozen:
    """A labeller made of copies of a learner's W and A, with random numbers of its own step."""

    def __init__(self, learner: Learner) -> None:
        # A copy of the apply: the learner may go on, and then its step is not that of its frozen self.
        self._learner = Learner(copy(learner.apply), copies(learner.architecture), None, copies(learner.w))

    def begin_step(self, step: int) -> None:
        """Bind the random numbers of iteration `step`, if there are any."""
        self._learner.begin_step(step)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Logits."""
        return self._learner.logits(self._learner.w, self._learner.architecture, inputs, "label")


def begin_step(apply: object, step: int) -> None:
    """Tell an apply or a labeller which iteration begins, if it wants to know."""
    begin = getattr(apply, "begin_step", None)
    if begin is not None:
        begin(step)


def checked_logits(logits: object, inputs: Tensor, source: str) -> Tensor:
    """One row of class scores per input, or a sentence."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise TypeError(f"{source} must return logits as a floating-point tensor, but it is {_kind(logits)}")
    if logits.dim() != 2 or logits.shape[0] != inputs.shape[0]:
        raise ValueError(
            f"{source} must return one row of class scores per input, "
            f"but got shape {tuple(logits.shape)} for {inputs.shape[0]} inputs"
        )
    return logits


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


def _checked(role: str, tensors: Tensors, *, may_be_empty: bool = False) -> dict[str, Tensor]:
    if not isinstance(tensors, Mapping):
        raise TypeError(f"{role} must be a dictionary of tensors, but it is {_kind(tensors)}")
    if not tensors and not may_be_empty:
        raise ValueError(f"{role} must hold at least one tensor, but it is empty")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise TypeError(f"{role} must hold floating-point tensors, but {name!r} is {_kind(tensor)}")
        if tensor.layout != torch.strided or any(
            s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True)
        ):
            raise ValueError(f"{role} must hold dense tensors, but {name!r} is sparse or expanded; clone it first")
        if tensor.is_inference():
            raise ValueError(f"{role} must not be made in inference mode, but {name!r} was")
        if not tensor.is_leaf:
            raise ValueError(
                f"{role} must hold leaf tensors, because steps are taken in place, "
                f"but {name!r} is the result of an operation; detach it first"
            )
    return dict(tensors)


def _check_alike(v: Tensors, w: Tensors) -> None:
    """V and W are two sets of weights of the same network."""
    shapes_v = {name: tuple(tensor.shape) for name, tensor in v.items()}
    shapes_w = {name: tuple(tensor.shape) for name, tensor in w.items()}
    for name in sorted(shapes_v.keys() | shapes_w.keys()):
        if shapes_v.get(name) != shapes_w.get(name):
            raise ValueError(
                "v and w must have the same names and shapes, "
                f"but {name!r} is {shapes_v.get(name, 'missing')} in v and {shapes_w.get(name, 'missing')} in w"
            )


def _takes_phase(apply: Callable[..., Any]) -> bool:
    try:
        function = apply.forward if isinstance(apply, nn.Module) else apply
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    return any(p.name == "phase" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def _kind(value: object) -> str:
    return f"a {value.dtype} tensor" if isinstance(value, Tensor) else f"of type {type(value).__name__}"
