"""A copy of everything a step may change, so that a step that fails changes nothing."""

from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from smallgroup.group.learner import Learner
from smallgroup.group.optimizers import Optimizers
from smallgroup.group.tensors import Point, Tensors, copies


class Snapshot:
    """V, W, A and the state of the optimizers, bit for bit; stage 3 probes around the very `v` and `w` saved here.

    It can be taken again and again of the same tensors: then the copies stay what they are and get new values, because
    to make a thousand small tensors costs more than to fill them.
    """

    def __init__(
        self, learners: Sequence[Learner], optimizers: Sequence[Optimizers], mine: Sequence[int], *, with_v: bool
    ) -> None:
        self._optimizers, self._with_v = list(optimizers), with_v
        self._learners = {k: learners[k] for k in mine}
        self.v = {k: copies(learner.v or {}) if with_v else Point() for k, learner in self._learners.items()}
        self.w = {k: copies(learner.w) for k, learner in self._learners.items()}
        self.architecture = {k: copies(learner.architecture) for k, learner in self._learners.items()}
        self._states = [
            _State(optimizer)
            for each in (optimizers[k] for k in mine)
            for optimizer in ((each.v if with_v else None), each.w, each.architecture)
            if optimizer is not None
        ]

    def is_of(self, optimizers: Sequence[Optimizers], *, with_v: bool) -> bool:
        """Return whether the snapshot can be taken again, because it was taken of these optimizers."""
        return self._optimizers == list(optimizers) and self._with_v == with_v

    def take_again(self) -> None:
        """Replace the saved copy by the present state."""
        live = [
            tensors
            for learner in self._learners.values()
            for tensors in ((learner.v or {}) if self._with_v else {}, learner.w, learner.architecture)
        ]
        kept = chain.from_iterable((self.v[k], self.w[k], self.architecture[k]) for k in self._learners)
        _copy([t for tensors in kept for t in tensors.values()], [t for tensors in live for t in tensors.values()])
        for state in self._states:
            state.take_again()

    def restore(self) -> None:
        """Put every value back into the very tensors it was taken from."""
        for k, learner in self._learners.items():
            _put_back(learner.v or {}, self.v[k])
            _put_back(learner.w, self.w[k])
            _put_back(learner.architecture, self.architecture[k])
        for state in self._states:
            state.restore()


class _State:
    """The buffers and the settings of one optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._known: list[object] = []
        self._buffers: list[Tensor] = []
        self._copies: list[Tensor] = []
        self._saved: dict[Tensor, dict[str, Any]] = {}
        self._settings: list[dict[str, Any]] = []
        self.take_again()

    def take_again(self) -> None:
        """Copy the current state of the optimizer; while it has the same buffers, their copies stay where they are."""
        optimizer = self._optimizer
        known = [value for p, state in optimizer.state.items() for value in (p, *state.values())]
        if len(known) == len(self._known) and all(map(is_, known, self._known)):
            _copy(self._copies, self._buffers)
        else:
            self._saved = {p: _copied(state) for p, state in optimizer.state.items()}
            self._buffers, self._copies = _tensors(optimizer.state), _tensors(self._saved)
            self._known = known  # the last: until then Ctrl-C leaves nothing that would be taken for known
        self._settings = [
            _copied({key: value for key, value in group.items() if key != "params"}) for group in optimizer.param_groups
        ]

    def restore(self) -> None:
        """Put every value back where it was."""
        current = self._optimizer.state
        for parameter in list(current):
            if parameter not in self._saved:
                del current[parameter]
        for parameter, values in self._saved.items():
            _put_back_values(current[parameter], values)
        for group, values in zip(self._optimizer.param_groups, self._settings, strict=True):
            group.update(values)


def _tensors(states: dict[Tensor, dict[str, Any]]) -> list[Tensor]:
    return [value for state in states.values() for value in state.values() if isinstance(value, Tensor)]


def _copy(copies: list[Tensor], tensors: list[Tensor]) -> None:
    if copies:
        with torch.no_grad():
            torch._foreach_copy_(copies, tensors)


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in values.items()}


def _put_back(tensors: Tensors, saved: Tensors) -> None:
    with torch.no_grad():
        for name, value in saved.items():
            tensors[name].copy_(value)
            tensors[name].grad = None


def _put_back_values(current: dict[str, Any], saved: dict[str, Any]) -> None:
    for key in list(current):
        if key not in saved:
            del current[key]
    for key, value in _copied(saved).items():  # copies: those of the snapshot are its own
        if isinstance(value, Tensor) and isinstance(current.get(key), Tensor):
            current[key].copy_(value)
        else:
            current[key] = value
