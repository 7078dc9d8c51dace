"""One learner: an architecture, two sets of weights, and the pure function that uses them."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.group.tensors import Tensors, copies

Phase = Literal["v", "label", "w", "w_unlabeled", "val"]
"""Which pass of an iteration is computed: what is random in a learner is drawn once per phase and step."""

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
    """

    def __init__(
        self, apply: Apply | Callable[..., Tensor], architecture: Tensors, v: Tensors | None, w: Tensors
    ) -> None:
        self.apply = apply
        self.architecture = _checked("architecture", architecture, may_be_empty=True)
        self.w = _checked("w", w)
        self.v = None if v is None else _checked("v", v)
        if self.v is not None:
            _check_alike(self.v, self.w)
        self._knows_phase = _takes_phase(apply)

    def begin_step(self, step: int) -> None:
        """Bind the random numbers of iteration `step`, if there are any."""
        begin = getattr(self.apply, "begin_step", None)
        if begin is not None:
            begin(step)

    def logits(self, weights: Tensors, architecture: Tensors, inputs: Tensor, phase: Phase) -> Tensor:
        """f(weights, architecture, inputs), checked to be one row of class scores per input."""
        inputs = inputs.to(self.device)
        options: dict[str, Any] = {"phase": phase} if self._knows_phase else {}
        logits = self.apply(weights, architecture, inputs, **options)
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            raise TypeError(f"apply must return logits as a floating-point tensor, but it is {_kind(logits)}")
        if logits.dim() != 2 or logits.shape[0] != inputs.shape[0]:
            raise ValueError(
                "apply must return one row of class scores per input, "
                f"but got shape {tuple(logits.shape)} for {inputs.shape[0]} inputs"
            )
        return logits

    def frozen(self) -> Labeller:
        """A labeller that keeps this learner as it is now (W and A copied): a finished search that teaches another."""
        weights, architecture = copies(self.w), copies(self.architecture)

        def label(inputs: Tensor) -> Tensor:
            return self.logits(weights, architecture, inputs, "label")

        return label

    @property
    def device(self) -> torch.device:
        """Where the learner computes: the device of its weights."""
        return next(iter(self.w.values())).device


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

    def begin_step(self, step: int) -> None:
        """Make the random numbers those of iteration `step`."""
        self.step = step

    def __call__(
        self, weights: Tensors, architecture: Tensors, inputs: Tensor, *, phase: Phase | None = None
    ) -> Tensor:
        """The module's output with the given tensors in place of its own."""
        state = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        key = hashlib.sha256(f"{self.seed}/{self.step}/{phase}".encode()).digest()
        with _replayed(inputs.device, int.from_bytes(key[:8], "little", signed=True)):
            logits: Tensor = functional_call(self.module, {**state, **weights, **architecture}, (inputs,))
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
    if not tensors and not may_be_empty:
        raise ValueError(f"{role} must hold at least one tensor, but it is empty")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            raise TypeError(f"{role} must hold floating-point tensors, but {name!r} is {_kind(tensor)}")
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
        parameters = inspect.signature(apply).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    return any(p.name == "phase" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def _kind(value: object) -> str:
    return f"a {value.dtype} tensor" if isinstance(value, Tensor) else f"of type {type(value).__name__}"
