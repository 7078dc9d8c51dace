"""A copy of everything a step may change, so that a step that fails changes nothing."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from smallgroup.group.learner import Learner
from smallgroup.group.optimizers import Optimizers
from smallgroup.group.tensors import Tensors, copies


class Snapshot:
    """V, W, A and the state of the optimizers, bit for bit; stage 3 probes around the very `v` and `w` saved here."""

    def __init__(self, learners: Sequence[Learner], optimizers: Sequence[Optimizers], *, with_v: bool) -> None:
        self._learners = learners
        self.v = [copies(learner.v or {}) if with_v else {} for learner in learners]
        self.w = [copies(learner.w) for learner in learners]
        self.architecture = [copies(learner.architecture) for learner in learners]
        self._states = [
            (
                optimizer,
                {p: _copied(state) for p, state in optimizer.state.items()},
                [
                    _copied({key: value for key, value in group.items() if key != "params"})
                    for group in optimizer.param_groups
                ],
            )
            for each in optimizers
            for optimizer in ((each.v if with_v else None), each.w, each.architecture)
            if optimizer is not None
        ]

    def restore(self) -> None:
        """Put every value back into the very tensors it was taken from."""
        for k, learner in enumerate(self._learners):
            _put_back(learner.v or {}, self.v[k])
            _put_back(learner.w, self.w[k])
            _put_back(learner.architecture, self.architecture[k])
        for optimizer, states, groups in self._states:
            _put_back_states(optimizer, states)
            for group, values in zip(optimizer.param_groups, groups, strict=True):
                group.update(values)


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}


def _put_back(tensors: Tensors, saved: Tensors) -> None:
    with torch.no_grad():
        for name, value in saved.items():
            tensors[name].copy_(value)
            tensors[name].grad = None


def _put_back_states(optimizer: Optimizer, saved: dict[Tensor, dict[str, Any]]) -> None:
    for parameter in list(optimizer.state):
        if parameter not in saved:
            del optimizer.state[parameter]
    for parameter, values in saved.items():
        current = optimizer.state[parameter]
        for key in list(current):
            if key not in values:
                del current[key]
        for key, value in values.items():
            if isinstance(value, Tensor) and isinstance(current.get(key), Tensor):
                current[key].copy_(value)
            else:
                current[key] = value
