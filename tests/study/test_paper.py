"""The built-in studies against the paper: its numbers as they are printed there, and what it varies."""

import pytest

from smallgroup.methods import METHODS
from smallgroup.study import built_in
from smallgroup.study.file import Study, open_study
from smallgroup.study.plan import planned

PRINTED = {
    "table-1": """
        DARTS-2nd         20.58 ± 0.44  1.8  1.5
        DARTS(1st)        20.52 ± 0.31  1.8  0.4
        DARTS(1st) + SGL  18.54 ± 0.21  2.2  1.2
        DARTS-            18.97 ± 0.16  3.1  0.4
        DARTS- + SGL      16.90 ± 0.10  3.5  2.0
        P-DARTS           17.49         3.6  0.3
        P-DARTS + SGL     16.58 ± 0.18  3.6  2.1
        PC-DARTS          17.01 ± 0.06  4.0  0.1
        PC-DARTS + SGL    16.34 ± 0.11  4.1  0.5
    """,
    "table-2": """
        DARTS-2nd         2.76 ± 0.09  3.3  1.5
        DARTS(1st)        3.00 ± 0.14  3.3  0.4
        DARTS(1st) + SGL  2.41 ± 0.06  3.7  1.2
        DARTS-            2.97 ± 0.04  3.3  0.6
        DARTS- + SGL      2.60 ± 0.07  3.1  2.0
        P-DARTS           2.50         3.4  0.3
        P-DARTS + SGL     2.47 ± 0.10  3.6  2.1
        PC-DARTS          2.57 ± 0.07  3.6  0.1
        PC-DARTS + SGL    2.60 ± 0.12  3.5  0.5
    """,
    "table-3": """
        DARTS-2nd-CIFAR10      26.7  8.7  4.7  0.4
        DARTS-1st-CIFAR10      26.1  8.3  4.5  0.4
        SGL-DARTS-1st-CIFAR10  24.9  7.7  5.2  2.1
        P-DARTS-CIFAR10        24.4  7.4  4.9  0.3
        SGL-P-DARTS-CIFAR10    24.3  7.2  5.1  2.1
        P-DARTS-CIFAR100       24.7  7.5  5.1  0.3
        SGL-P-DARTS-CIFAR100   23.9  7.2  5.3  2.1
        PC-DARTS-CIFAR10       25.1  7.8  5.3  0.1
        PC-DARTS-ImageNet      24.2  7.3  5.3  3.8
        SGL-PC-DARTS-ImageNet  23.3  6.7  6.4  4.0
    """,
    "table-4": """
        With first stage (CIFAR-100)     16.58 ± 0.18
        Without first stage (CIFAR-100)  17.33 ± 0.20
        With first stage (CIFAR-10)      2.41 ± 0.06
        Without first stage (CIFAR-10)   2.60 ± 0.05
    """,
    "table-5": """
        Joint (CIFAR-100)     16.58 ± 0.18
        Separate (CIFAR-100)  17.80 ± 0.15
        Joint (CIFAR-10)      2.41 ± 0.06
        Separate (CIFAR-10)   2.55 ± 0.13
    """,
    "table-6": """
        With human labels (CIFAR-100)     16.58 ± 0.18
        Without human labels (CIFAR-100)  16.96 ± 0.17
        With human labels (CIFAR-10)      2.41 ± 0.06
        Without human labels (CIFAR-10)   2.74 ± 0.15
    """,
}


@pytest.mark.parametrize("name", PRINTED)
def test_numbers_of_the_paper_are_those_it_prints(name: str) -> None:
    _, study = open_study(name)
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in PRINTED[name].splitlines()]
    printed = {row: cells for row, *cells in filter(None, lines)}
    assert {row.name: [*row.theirs.values()] for row in study.rows if row.theirs} == printed
    columns = list(study.columns)
    assert all(list(row.theirs) == columns[: len(row.theirs)] for row in study.rows)


@pytest.mark.parametrize("recipe", ["quick", "paper"])
@pytest.mark.parametrize("name", ["table-4", "table-5", "table-6"])
def test_ablations_have_the_method_and_the_lambda_of_the_paper(name: str, recipe: str) -> None:
    plan = planned(*open_study(name, {"recipe": recipe, "seeds": [1]}))
    taught = [run.config for run in plan.runs if run.phase == "search" and run.config.teaching.active]
    found = {(config.data.dataset, config.learners[0].method, config.lam) for config in taught}
    assert found == {("cifar100", "p-darts", 1.0), ("cifar10", "darts", 2.0)}


def test_figures_vary_what_those_of_the_paper_vary() -> None:
    """Both on a tenth of the training images, which are 5,000 of CIFAR's."""
    (_, over_lambda), (_, over_learners) = open_study("figure-lambda"), open_study("figure-k")
    assert over_lambda.grid == {"dataset": ("cifar100", "cifar10"), "lambda": (0, 0.1, 0.5, 1, 2, 3)}
    assert over_learners.grid == {"dataset": ("cifar100", "cifar10"), "learners": (1, 2, 3)}
    assert methods_and_held_out(over_lambda) == {("p-darts", 0.1)}
    assert methods_and_held_out(over_learners) == {("darts", 0.1)}
    groups = [line for line in planned("figure-k", over_learners).lines if line.row.name == "(K - 1) lambda = 1"]
    configs = [line.runs[1].search.config for line in groups]
    assert [(len(config.learners) - 1) * config.lam for config in configs if len(config.learners) > 1] == [1.0] * 4


def methods_and_held_out(study: Study) -> set[tuple[str, float]]:
    """Of all searches and trainings."""
    configs = [run.config for run in planned("figure", study).runs]
    return {(config.learners[0].method, config.data.held_out) for config in configs}


@pytest.mark.parametrize("name", built_in())
def test_nobody_begins_weeks_of_work_without_asking_for_it(name: str) -> None:
    _, study = open_study(name)
    assert study.recipe == "quick"


def test_every_method_that_can_is_searched_on_the_benchmark() -> None:
    """The stages of P-DARTS are of different depth, which that space has not."""
    _, study = open_study("nas-bench-201")
    assert set(study.grid["method"]) == {"darts", "darts-minus", "pc-darts", "gdas", "fair-darts"}
    _, every = open_study("methods")
    assert sorted(every.grid["method"]) == sorted(set(METHODS.built_in) - {"p-darts"})
    assert every.seeds == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3"])
def test_tables_are_of_ten_searches(name: str) -> None:
    _, study = open_study(name)
    assert study.seeds == tuple(range(1, 11))
