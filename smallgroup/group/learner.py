"""One learner: an architecture, two sets of weights, and the pure function that uses them."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from smallgroup.group.inputs import Inputs, size_of, to_device
from smallgroup.group.module_apply import ModuleApply
from smallgroup.group.tasks.classification import Classification
from smallgroup.group.tensors import Tensors, copies
from smallgroup.runtime import Phase

Labeler = Callable[[Inputs], Tensor]
"""A frozen labeler: inputs to outputs, in classification logits."""


class Apply(Protocol):
    """The function of a learner: `apply(weights, architecture, inputs, *, phase=None) -> outputs`, a pure one.

    In classification the outputs are logits; every other task says what its outputs are. Inputs come as they were given
    to the group: a tensor, or a dictionary, or a tuple. A three-argument function works too. The tensors of two
    passes may be the same objects with other values, so nothing may be remembered by them. An `apply` that is an object
    may also have any of these:

    begin_step(step)
        Called at the start of every iteration. Until the next call all passes of one phase must use the same
        random numbers, a function of (step, phase) alone.
    begin_phase(phase, architecture, loss)
        Called before the first pass of each training phase ("v", "w", "w_unlabeled"). `loss()` evaluates the
        loss of that phase at the current weights and this architecture, both constant, through this very `apply`:
        for a disturbance that is found by looking at the loss. It stays what it is until the next iteration.
    see_gradients(phase, gradients)
        Called with the gradient of the loss on labels in W, by name, None for a weight that took no part: in phase
        "w", and in "val", where it is computed for this hook if nothing else needs it. None in place of a function
        counts as missing.
    penalty(architecture) -> scalar
        Added to the validation loss that the architecture follows. No weight sees it, and reports leave it out.
    combine(losses, architecture, size, phase) -> scalar
        For an `apply` that returns the logits of several samples, [samples, batch, classes]: one loss out of
        theirs, means over a batch of `size`. Their mean if it is missing. Labels are the samples' mean. This is for
        classification alone.
    after_step(architecture, before)
        Called when the architecture has moved; may correct it in place. If another learner then fails, the
        architecture is put back, but nothing else that this hook may have changed.
    """

    def __call__(
        self, weights: Tensors, architecture: Tensors, inputs: Inputs, *, phase: Phase | None = None
    ) -> Tensor:
        """Return outputs, one row per input (logits in classification)."""
        ...


class Learner:
    """Learner k of the paper: architecture `A_k`, first weights `V_k`, second weights `W_k`.

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

    def outputs(self, weights: Tensors, architecture: Tensors, inputs: Inputs, phase: Phase) -> Tensor:
        """Return f(weights, architecture, inputs) as in a phase of the group: one floating-point tensor.

        What is random in the learner is that of the phase, dropout included, also in "val". For an error on
        validation or test data evaluate `ModuleApply.trained`.
        """
        options: dict[str, Any] = {"phase": phase} if self._knows_phase else {}
        return checked_outputs(self.apply(weights, architecture, to_device(inputs, self.device), **options), "apply")

    def logits(self, weights: Tensors, architecture: Tensors, inputs: Inputs, phase: Phase) -> Tensor:
        """Return the checked outputs of a classifier: [batch, classes], or [samples, batch, classes]."""
        outputs = self.outputs(weights, architecture, inputs, phase)
        Classification().check_outputs(outputs, size_of(inputs), "apply")
        return outputs

    def begin_phase(self, phase: Phase, architecture: Tensors, loss: Callable[[], Tensor]) -> None:
        """Let the learner look at the loss of a training phase before it is used."""
        begin = getattr(self.apply, "begin_phase", None)
        if begin is not None:
            begin(phase, architecture, loss)

    @property
    def sees_gradients(self) -> bool:
        """Return whether the learner wants to see gradients of its weights."""
        return getattr(self.apply, "see_gradients", None) is not None

    def see_gradients(self, phase: Phase, gradients: Mapping[str, Tensor | None]) -> None:
        """Show the learner the gradient of a loss on labels in its weights, if it wants to see it."""
        if self.sees_gradients and phase in ("w", "val"):
            self.apply.see_gradients(phase, gradients)  # type: ignore[union-attr]

    def penalty(self, architecture: Tensors) -> Tensor | None:
        """Return what is added to the validation loss for the architecture alone; None: nothing."""
        penalty = getattr(self.apply, "penalty", None)
        value: Tensor | None = None if penalty is None else penalty(architecture)
        return value

    def combine(self, losses: Tensor, architecture: Tensors, size: int, phase: Phase) -> Tensor:
        """Return one loss for the losses of several samples."""
        combine = getattr(self.apply, "combine", None)
        value: Tensor = losses.mean() if combine is None else combine(losses, architecture, size, phase)
        return value

    def after_step(self, before: Tensors) -> None:
        """Let the learner correct its architecture when it has moved."""
        after = getattr(self.apply, "after_step", None)
        if after is not None:
            with torch.no_grad():
                after(self.architecture, before)

    def frozen(self) -> "Frozen":
        """Return a labeler that keeps the state this learner has now: a finished search that teaches others."""
        return Frozen(self)

    @property
    def device(self) -> torch.device:
        """Return where the learner computes: the device of its weights."""
        return next(iter(self.w.values())).device


class Frozen:
    """A labeler made of copies of a learner's W and A, with random numbers of its own step."""

    def __init__(self, learner: Learner) -> None:
        # A copy of the apply: the learner may go on, and then its step is not that of its frozen self.
        self._learner = Learner(copy(learner.apply), copies(learner.architecture), None, copies(learner.w))

    def begin_step(self, step: int) -> None:
        """Bind the random numbers of iteration `step`, if there are any."""
        self._learner.begin_step(step)

    def __call__(self, inputs: Inputs) -> Tensor:
        """Return the outputs of the copied learner, one row per input."""
        return self._learner.outputs(self._learner.w, self._learner.architecture, inputs, "label")


def begin_step(apply: object, step: int) -> None:
    """Tell an apply or a labeler which iteration begins, if it wants to know."""
    begin = getattr(apply, "begin_step", None)
    if begin is not None:
        begin(step)


def checked_outputs(outputs: object, source: str) -> Tensor:
    """Return outputs that are one floating-point tensor, or raise a sentence."""
    if not isinstance(outputs, Tensor) or not outputs.is_floating_point():
        raise TypeError(f"{source} must return its outputs as one floating-point tensor, but it is {_kind(outputs)}")
    return outputs


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
    """Refuse V and W that are not two sets of weights of the same network."""
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
