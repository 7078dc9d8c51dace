"""Steps of groups as functions of an exchange: what they do to every learner that is computed here, as hashes."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD, Adam

from smallgroup.group import Exchange, Learner, LearnerReport, Optimizers, SmallGroup
from tests.group import networks
from tests.group.networks import learner_of, make_learners
from tests.group.tasks.cases import CASES as TASKS

Make = Callable[[int], Exchange]
"""The number of learners to an exchange for them."""
MODES = ("first-order", "finite-difference", "exact")
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "without first stage": {"labels_from": "w"},
    "joint": {"labels_from": "w-joint"},
    "frozen": {"labels_from": "frozen"},
    "without human labels": {"human_labels": False},
    "self-taught": {"targets": "own"},
    "uniform": {"targets": "uniform"},
    "independent": {"lam": 0.0},
}


@dataclass(frozen=True)
class Case:
    """A group and two of its steps."""

    learners: int
    mode: str = "finite-difference"
    options: dict[str, Any] = field(default_factory=dict)
    task: str = "classification"
    dtype: torch.dtype = torch.float32
    with_optimizers: bool = False
    noisy: bool = False
    step: dict[str, Any] = field(default_factory=dict)

    def group(self, make: Make) -> SmallGroup:
        """A fresh one."""
        learners = self._learners()
        options = dict(self.options)
        if options.get("labels_from") == "frozen":
            options["labels_from"] = [learner.frozen() for learner in self._learners()]
        if self.with_optimizers:
            options["optimizers"] = [_optimizers(learner) for learner in learners]
        rates = {"v_lr": 0.3, "w_lr": 0.3, "architecture_lr": 0.1, "hypergradient": self.mode}
        task = TASKS[self.task].task()
        return SmallGroup(learners, **{**rates, **options}, task=task, exchange=make(self.learners))

    def batches(self, seed: int) -> Any:
        """Those of a step."""
        return TASKS[self.task].batches(self.dtype, seed)

    def _learners(self) -> list[Learner]:
        if self.noisy:
            return [learner_of(lambda k=k: Dropping(3 + k), k, self.dtype) for k in range(self.learners)]  # type: ignore[misc]
        if self.task == "classification":
            return make_learners(self.learners, self.dtype)
        return TASKS[self.task].learners(self.learners, self.dtype)

    def outcome(self, make: Make) -> dict[str, str]:
        """A hash per learner that is computed here."""
        group = self.group(make)
        mine = make(self.learners).mine
        seen: dict[int, list[Any]] = {k: [] for k in mine}
        gradients = group.architecture_gradients(*self.batches(0), parts=True)
        for seed in range(2):
            report = group.step(*self.batches(seed), **self.step)
            for k in mine:
                seen[k] += [*values_of(report.learners[k]), *gradients[k].values(), state_of(group, k)]
        return {str(k): digest(values) for k, values in seen.items()}


class Dropping(networks.Gated):
    """Another random mask per learner, phase and step."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.dropout(x, 0.3, self.training))


def _optimizers(learner: Learner) -> Optimizers:
    return Optimizers(
        v=SGD((learner.v or {}).values(), lr=0.1, momentum=0.9, nesterov=True),
        w=Adam(learner.w.values(), lr=0.01),
        architecture=Adam(learner.architecture.values(), lr=0.01, betas=(0.5, 0.999)),
        w_clip=0.5,
    )


FEW = (
    "paper, first-order, K = 2",
    "paper, finite-difference, K = 4",
    "paper, exact, K = 3",
    "joint, exact, K = 4",
    "frozen, exact, K = 3",
    "self-taught, finite-difference, K = 2",
    "uniform, first-order, K = 3",
    "independent, exact, K = 3",
    "gaussian, joint",
    "tokens, paper",
    "optimizers",
    "dropout",
)
"""Those that every run of the suite carries out."""


def cases() -> dict[str, Case]:
    """All of them by name."""
    found = {
        f"{setting}, {mode}, K = {count}": Case(count, mode, options)
        for count in (2, 3, 4)
        for setting, options in SETTINGS.items()
        for mode in MODES
    }
    for task in ("gaussian", "tokens", "a user's own", "sharp and confident labels"):
        for name in ("paper", "joint"):
            found[f"{task}, {name}"] = Case(3, "exact", SETTINGS[name], task)
    found["dropout"] = Case(3, noisy=True)
    found["optimizers"] = Case(3, with_optimizers=True)
    found["double precision"] = Case(3, dtype=torch.float64)
    found["architectures first"] = Case(3, options={"lam": 0.0}, step={"order": "a-v-w"})
    found["architectures first, taught"] = Case(3, "first-order", step={"order": "a-v-w"})
    found["some architectures"] = Case(3, step={"moving": [True, False, True]})
    return found


# What is compared.


def values_of(report: LearnerReport) -> list[Any]:
    """Losses, terms, labels and reasons of one learner."""
    losses = [report.v_loss, report.w_loss, report.w_unlabeled_loss, report.validation_loss]
    return [losses, *report.terms.values(), report.gradient, report.soft_labels, sorted(report.skipped.items())]


def state_of(group: SmallGroup, k: int) -> list[Any]:
    """All tensors of a learner and of its optimizers."""
    learner, own = group.learners[k], group.optimizers[k]
    states = [list(each.state.values()) for each in (own.v, own.w, own.architecture) if each is not None]
    return [learner.architecture, learner.v, learner.w, states]


def digest(values: object) -> str:
    """A hash of tensors, numbers and text in containers, to the bit."""
    whole = hashlib.sha256()
    for part in _bytes_of(values):
        whole.update(part)
    return whole.hexdigest()[:16]


def _bytes_of(values: object) -> Iterable[bytes]:
    if isinstance(values, Tensor):
        yield str((values.dtype, tuple(values.shape))).encode()
        yield values.detach().contiguous().numpy().tobytes()
    elif isinstance(values, dict):
        for key in sorted(values):
            yield str(key).encode()
            yield from _bytes_of(values[key])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _bytes_of(value)
    else:
        yield repr(values).encode()
