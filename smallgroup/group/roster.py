"""The tensors of all learners of a group: memory of their own, and whether they are still those the group knows."""

from collections.abc import Sequence
from itertools import pairwise

from smallgroup.group.learner import Learner
from smallgroup.group.module_apply import ModuleApply
from smallgroup.group.tensors import Tensors


def check_learners(learners: Sequence[Learner], *, needs_v: bool) -> None:
    """Refuse what is no learner, learners without the weights they need, and tensors that share memory."""
    taken: list[tuple[int, int, str]] = []
    for k, learner in enumerate(learners):
        if not isinstance(learner, Learner):
            raise TypeError(f"learners must be of type Learner, but number {k} is {type(learner).__name__}")
        if needs_v and learner.v is None:
            raise ValueError(f"learners that teach need first weights v, but learner {k} has none")
        for role, tensors in _roles(learner):
            for name, tensor in tensors.items():
                if tensor.numel():
                    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
                    start = tensor.data_ptr()
                    taken.append((start, start + reach * tensor.element_size(), f"{role}[{name!r}] of learner {k}"))
    taken.sort()
    for (_, end, there), (start, _, here) in pairwise(taken):
        if start < end:
            raise ValueError(f"every tensor must have memory of its own, but {here} overlaps {there}")


def check_seeds(learners: Sequence[Learner]) -> None:
    """Refuse learners that share a seed: each has its own random numbers."""
    seeds: dict[int, int] = {}
    for k, learner in enumerate(learners):
        apply = learner.apply
        if isinstance(apply, ModuleApply) and apply.draws and (j := seeds.setdefault(apply.seed, k)) != k:
            raise ValueError(
                f"learners must draw random numbers of their own, but learners {j} and {k} both have "
                f"ModuleApply(..., seed={apply.seed})"
            )


def _roles(learner: Learner) -> tuple[tuple[str, Tensors], ...]:
    return ("architecture", learner.architecture), ("v", learner.v or {}), ("w", learner.w)


def identities_of(learner: Learner) -> list[int]:
    """Return which objects the tensors are: a replaced one would not be stepped by its optimizer."""
    return [id(tensor) for _, tensors in _roles(learner) for tensor in tensors.values()]


def places_of(learner: Learner) -> list[int]:
    """Return the addresses of the tensors: moved to another device or precision, objects stay the same."""
    return [tensor.data_ptr() for _, tensors in _roles(learner) for tensor in tensors.values()]
