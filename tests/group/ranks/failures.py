"""Steps that fail on one rank or on several: what every rank raises, what it keeps, and how the group goes on."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from smallgroup.group import Learner, SmallGroup
from tests.group.ranks.cases import Case, Make, digest, state_of

PHASES = ("v", "label", "w", "w_unlabeled", "val")


class Broken:
    """An apply that goes wrong in a call that is chosen, and works again when it is mended."""

    def __init__(self, learner: Learner, phase: str, what: Callable[[Tensor], Tensor], call: int = 0) -> None:
        self.inner, self.phase, self.what, self.left = learner.apply, phase, what, call
        self.mended = False
        learner.apply = self

    def begin_step(self, step: int) -> None:
        self.inner.begin_step(step)  # type: ignore[union-attr]

    def __call__(self, weights: Any, architecture: Any, inputs: Any, *, phase: Any = None) -> Tensor:
        outputs: Tensor = self.inner(weights, architecture, inputs, phase=phase)
        if self.mended or phase != self.phase:
            return outputs
        self.left -= 1
        return self.what(outputs) if self.left < 0 else outputs


def not_finite(outputs: Tensor) -> Tensor:
    return outputs * float("nan")


def raises(error: BaseException) -> Callable[[Tensor], Tensor]:
    def what(_: Tensor) -> Tensor:
        raise error

    return what


def failing(learners: dict[int, tuple[str, Callable[[Tensor], Tensor], int]]) -> Callable[[Make], dict[str, Any]]:
    """Two good steps around one in which some learners fail: (phase, what happens, in which call of the phase)."""

    def outcome(make: Make) -> dict[str, Any]:
        case = Case(3, "exact", with_optimizers=True)
        group, mine = case.group(make), make(3).mine
        group.step(*case.batches(0))
        broken = [Broken(group.learners[k], *what[:2], what[2]) for k, what in learners.items() if k in mine]
        return _around(group, case, list(mine), lambda: group.step(*case.batches(1)), broken)

    return outcome


def wrong_labels(make: Make) -> dict[str, Any]:
    """One rank alone is given labels that do not fit."""
    case = Case(3)
    group, mine = case.group(make), list(make(3).mine)
    (x, y), u, validation = case.batches(1)
    labels = y[:4] if 1 in mine else y
    return _around(group, case, mine, lambda: group.step((x, labels), u, validation), [])


def replaced_tensor(make: Make) -> dict[str, Any]:
    """One rank fails before its first pass."""
    case = Case(3)
    group, mine = case.group(make), list(make(3).mine)
    right = group.learners[1].w
    if 1 in mine:
        group.learners[1].w = {name: tensor.clone() for name, tensor in right.items()}

    def step() -> None:
        try:
            group.step(*case.batches(1))
        finally:
            group.learners[1].w = right

    return _around(group, case, mine, step, [])


def other_classes(make: Make) -> dict[str, Any]:
    """Learners of different ranks do not agree on the number of classes: that is known only when they meet."""
    case = Case(3)
    group, mine = case.group(make), list(make(3).mine)
    broken = [Broken(group.learners[1], "label", lambda outputs: outputs[:, :3])]
    return _around(group, case, mine, lambda: group.step(*case.batches(1)), broken)


def gradients_alone(make: Make) -> dict[str, Any]:
    """A gradient that fails after the last meeting of its tables: the others must not be left waiting."""
    case = Case(3, "exact")
    group, mine = case.group(make), list(make(3).mine)
    broken = [Broken(group.learners[2], "label", raises(ValueError("too late")), 1)] if 2 in mine else []
    return _around(group, case, mine, lambda: group.architecture_gradients(*case.batches(1)), broken)


def _around(
    group: SmallGroup, case: Case, mine: list[int], fail: Callable[[], object], broken: list[Broken]
) -> dict[str, Any]:
    before, steps = digest([state_of(group, k) for k in mine]), group.steps
    try:
        fail()
        error = "none"
    except BaseException as found:
        error = f"{type(found).__name__}: {found}"
    kept = digest([state_of(group, k) for k in mine]) == before and group.steps == steps
    for each in broken:
        each.mended = True
    group.step(*case.batches(2))
    after = {str(k): digest(state_of(group, k)) for k in mine}
    return {"error": error, "unchanged": kept, "after": after}


FEW = ("not finite in v", "not finite twice", "raises in the cross terms", "wrong labels on one rank", "other classes")
"""Those that every run of the suite carries out."""


def failures() -> dict[str, Callable[[Make], dict[str, Any]]]:
    """All of them by name."""
    found = {f"not finite in {phase}": failing({1: (phase, not_finite, 0)}) for phase in PHASES}
    found |= {f"raises in {phase}": failing({1: (phase, raises(ZeroDivisionError("by hand")), 0)}) for phase in PHASES}
    found["raises in the cross terms"] = failing({2: ("label", raises(ZeroDivisionError("by hand")), 1)})
    found["interrupted"] = failing({1: ("w", raises(KeyboardInterrupt()), 0)})
    found["not finite twice"] = failing({0: ("val", not_finite, 0), 1: ("v", not_finite, 0), 2: ("v", not_finite, 0)})
    found["not finite and an error"] = failing({0: ("v", not_finite, 0), 1: ("v", raises(OSError("by hand")), 0)})
    found["wrong labels on one rank"] = wrong_labels
    found["a replaced tensor on one rank"] = replaced_tensor
    found["other classes"] = other_classes
    found["gradients alone"] = gradients_alone
    return found


def different_steps(make: Make) -> str:
    """The rank of learner 1 takes steps of another kind: what every rank raises."""
    case = Case(3, options={"lam": 0.0} if 1 in make(3).mine else {})
    try:
        case.group(make).step(*case.batches(0))
    except RuntimeError as error:
        return str(error)
    return "none"


def different_sizes(make: Make) -> str:
    """The rank of learner 1 has a group of two."""
    case = Case(2 if list(make(3).mine)[:1] == [1] else 3)
    try:
        case.group(make).step(*case.batches(0))
    except ValueError as error:
        return str(error)
    return "none"


def never_finished(make: Make, end: Callable[[], None]) -> list[str]:
    """A step in which learner 1 ends its process: what the others keep of it, and what another step raises."""
    case = Case(3)
    group = case.group(make)

    def what(outputs: Tensor) -> Tensor:
        end()
        return outputs

    if 1 in make(3).mine:
        Broken(group.learners[1], "w", what)
    before = digest([state_of(group, k) for k in make(3).mine])
    found = []
    for _ in range(2):
        try:
            group.step(*case.batches(0))
            found.append("none")
        except RuntimeError as error:
            kept = "unchanged" if digest([state_of(group, k) for k in make(3).mine]) == before else "changed"
            found.append(f"{kept}: {error}")
    return found
