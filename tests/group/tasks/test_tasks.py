"""Every task against its own unrolled problem, term by term: the tolerances are those of classification."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.group import SmallGroup
from smallgroup.group.checks import Checks
from tests.group import oracle
from tests.group.checks import TOLERANCE, XI, group_of, term_errors
from tests.group.tasks.cases import CASES, names
from tests.group.test_teaching import SETTINGS

SMALL = 0.003
RADIUS = dict.fromkeys(["multi-label", "gaussian", "a user's own"], SMALL)
"""Of the probes, where the default of 0.01 leaves more than 1e-3 of curvature: the Gaussian likelihood 3.1e-3."""

NEW = names(without=["classification"])
"""Those that other files do not test already."""


def group_for(name: str, count: int, dtype: torch.dtype = torch.float64, **options: Any) -> SmallGroup:
    case = CASES[name]
    return group_of(case.learners(count, dtype), task=case.task(), **{"radius": RADIUS.get(name, 0.01), **options})


def expected_terms(name: str, count: int, **options: Any) -> list[Any]:
    case = CASES[name]
    given = {"lam": 1.0, "step_v": oracle.plain(XI), "step_w": oracle.plain(XI), "written": case.written, **options}
    return oracle.term_gradients(case.learners(count, torch.float64), case.batches(torch.float64, 5), **given)


def found_terms(group: SmallGroup, name: str, dtype: torch.dtype = torch.float64) -> list[Any]:
    return group.architecture_gradients(*CASES[name].batches(dtype, 5), parts=True)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", NEW)
def test_every_term_equals_the_unrolled_problem(name: str, count: int) -> None:
    expected = expected_terms(name, count)
    wanted = {"direct", "own", "cross", "label"} if count > 1 else {"direct", "own"}
    for mode, dtype, tolerance in (
        ("exact", torch.float64, 1e-11),
        ("finite-difference", torch.float64, TOLERANCE[torch.float64]),
        ("finite-difference", torch.float32, TOLERANCE[torch.float32]),
    ):
        errors = term_errors(found_terms(group_for(name, count, dtype, hypergradient=mode), name, dtype), expected)
        assert {term for _, term in errors} == wanted
        assert max(errors.values()) < tolerance, (mode, dtype, errors)
    first = found_terms(group_for(name, count, hypergradient="first-order"), name)
    for k, terms in enumerate(first):
        assert oracle.relative(terms["direct"], expected[k]["direct"]) < 1e-12
        assert not any(bool(t.any()) for term in ("own", "cross", "label") for t in terms[term].values())


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", NEW)
def test_float32_exact_equals_float64_exact(name: str, count: int) -> None:
    """To 1e-5 of the gradient."""
    double, single = (
        group_for(name, count, dtype, hypergradient="exact").architecture_gradients(*CASES[name].batches(dtype, 5))
        for dtype in (torch.float64, torch.float32)
    )
    for k in range(count):
        assert oracle.relative(single[k], double[k]) < 1e-5


@pytest.mark.parametrize("name", NEW)
def test_exact_equals_central_differences_of_the_whole_objective(name: str) -> None:
    case = CASES[name]
    found = group_for(name, 2, hypergradient="exact").architecture_gradients(*case.batches(torch.float64, 5))
    expected = oracle.central_differences(
        case.learners(2, torch.float64),
        case.batches(torch.float64, 5),
        list(oracle.ROLE),
        lam=1.0,
        step_v=oracle.plain(XI),
        step_w=oracle.plain(XI),
        written=case.written,
    )
    for k in range(2):
        assert oracle.relative(found[k], expected[k]) < 1e-6


def switches(name: str, setting: str, count: int) -> dict[str, Any]:
    options = dict(SETTINGS[setting][0])
    if options.get("labels_from") == "frozen":
        options["labels_from"] = [learner.frozen() for learner in CASES[name].learners(count, torch.float64)]
    return options


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting != "full"])
@pytest.mark.parametrize("name", NEW)
def test_ablations_and_controls_equal_their_unrolled_problems(name: str, setting: str) -> None:
    """At the smaller radius for all: at 0.01 the joint form of one number is off by 1.01e-3."""
    options = switches(name, setting, 3)
    expected = expected_terms(name, 3, **options)
    for mode, tolerance in (("exact", 1e-11), ("finite-difference", TOLERANCE[torch.float64])):
        errors = term_errors(
            found_terms(group_for(name, 3, hypergradient=mode, radius=SMALL, **options), name), expected
        )
        assert {term for _, term in errors} == SETTINGS[setting][1]
        assert max(errors.values()) < tolerance, (mode, errors)


def test_the_error_of_finite_differences_falls_with_the_square_of_the_radius() -> None:
    """So what is left at the paper's radius is curvature, and no wrong term."""
    expected, errors = expected_terms("gaussian", 2), []
    for radius in (0.01, 0.001):
        group = group_for("gaussian", 2, hypergradient="finite-difference", radius=radius)
        errors.append(term_errors(found_terms(group, "gaussian"), expected))
    for term in ("own", "cross", "label"):
        assert 90 < errors[0][0, term] / errors[1][0, term] < 110


def test_a_sensitivity_to_another_teacher_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Gaussian it depends on what was handed over: that of the first teacher will not do for all."""
    right = Checks.keep_sensitivity
    expected = expected_terms("gaussian", 3)

    def wrong(self: Checks, k: int, tables: Sequence[Tensor]) -> None:
        right(self, k, [tables[0]] * len(tables))

    monkeypatch.setattr(Checks, "keep_sensitivity", wrong)
    errors = term_errors(found_terms(group_for("gaussian", 3, hypergradient="exact"), "gaussian"), expected)
    assert max(error for (_, term), error in errors.items() if term in ("direct", "own")) < 1e-11
    assert max(error for (_, term), error in errors.items() if term == "label") > 1e-2
