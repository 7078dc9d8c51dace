"""A tiny form of every study that comes with the package, carried out on digits."""

from pathlib import Path
from typing import Any

import pytest

from smallgroup.study import Store, built_in, planned, tabulated
from smallgroup.study.figures import draw
from smallgroup.study.file import Study, open_study, parsed
from smallgroup.study.formats import grid, latex, markdown
from smallgroup.study.measures import TRUE
from smallgroup.study.work import work

BATCHES = {"train": 4, "unlabeled": 4, "validation": 32}
NETWORK = {"channels": 2, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"}
SMALL: dict[str, Any] = {
    "data": {"dataset": "digits", "unlabeled": "split", "labeled_fraction": 0.3},
    "search": {"hypergradient": "first-order", "steps_per_epoch": 1, "v_warmup": 0, "batch_size": BATCHES},
    "training": {"epochs": 1, "steps_per_epoch": 1, "batch_size": 4, "network": NETWORK},
}
BENCHMARK = {"name": "nas-bench-201", "channels": 2, "cells_per_stage": 1}
MOST = 3
"""Learners at most."""


def tiny(name: str) -> Study:
    """One seed and no ground truth, which digits have not; rows, phases, claims and figures as they are."""
    _, study = open_study(name, {"recipe": "quick", "seeds": [1], "over": SMALL})
    rows = [row.model_dump() for row in study.rows if row.baseline is None]
    seen = False
    grid = {axis: values[:2] for axis, values in study.grid.items()}
    for row in rows:
        config = row["config"]
        row["where"] = [one for one in row["where"] if all(one["at"][axis] in grid[axis] for axis in one["at"])]
        for keys in (config, *(one["config"] for one in row["where"])):
            if "learners" in keys:
                keys["learners"] = min(keys["learners"], MOST)
        method = config.get("method", study.base.get("method"))
        staged = method == "p-darts" and not seen
        seen |= staged
        if method == "p-darts" and not staged:
            config["method"] = "darts"  # in three stages a search takes as long as all others together
        config["search"] = {**config.get("search", {}), "epochs": 3 if staged else 1}
        config["space"] = {"name": "darts", "channels": 2, "cells": 3} if staged else BENCHMARK
        config["methods"] = {"p-darts": {"added": [1, 1]}} if staged else {}
    columns = [column for column in study.columns if column not in TRUE]
    primary = "validation_error" if study.primary in TRUE else study.primary
    return parsed({**study.model_dump(), "rows": rows, "columns": columns, "primary": primary, "grid": grid})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One for all of them: studies that need the same search share it."""
    return Store(tmp_path_factory.mktemp("studies"))


LONG = ("figure-k", "figure-lambda", "methods", "table-4")
"""Seconds each, of rows like those of the others."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in built_in()]
)
def test_a_tiny_form_completes(name: str, store: Store, tmp_path: Path) -> None:
    study = tiny(name)
    plan = planned(name, study)
    work(plan.runs, store)
    table = tabulated(plan, store)
    assert [failure for row in table.rows for failure in row.failed] == []
    titles, rows = grid(table)
    assert len(rows) == len(plan.lines)
    assert all(row[-1] == "1" for row in rows)
    assert len(table.verdicts) >= len(study.claims)
    for figure in study.figures:
        assert all(path.stat().st_size > 1_000 for path in draw(plan, table, store, figure, tmp_path / figure.kind))
    assert all(str(row[0]) in markdown(table) for row in rows)
    assert latex(table).count(r"\\") == len(rows) + 1
    theirs = any(row.theirs for row in study.rows)
    assert any("(paper)" in title for title in titles) == theirs
