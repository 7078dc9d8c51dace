"""The table under `results/methods/` is what its archive and its measured steps come to."""

import os
import runpy
from pathlib import Path

import pytest

from smallgroup.methods import METHODS
from smallgroup.study import Store, open_study, planned, tabulated
from smallgroup.study.archive import unpack
from smallgroup.study.formats import comma_separated, markdown
from smallgroup.study.plan import Plan

FOLDER = Path(__file__).parents[2] / "results" / "methods"


def plan() -> Plan:
    name, study = open_study("methods")
    return planned(name, study.model_copy(update={"seeds": tuple(range(1001, 1006))}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    root = tmp_path_factory.mktemp("studies")
    unpack(FOLDER / "runs.tar.xz", root)
    return Store(root)


def test_every_run_is_there(store: Store) -> None:
    runs = plan().runs
    assert len(runs) == 220
    assert [run.key for run in runs if store.state(run) != "done"] == []


@pytest.mark.slow  # for the percentiles of 220 searches
@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_the_table_is_that_of_its_runs(store: Store) -> None:
    table = tabulated(plan(), store)
    lines = markdown(table).splitlines()
    assert (FOLDER / "table.md").read_text().splitlines()[: len(lines)] == lines
    assert comma_separated(table) == (FOLDER / "values.csv").read_text()


def test_the_page_has_every_method_and_the_numbers_of_the_table() -> None:
    page = (FOLDER / "README.md").read_text()
    lines: list[str] = runpy.run_path(str(FOLDER / "page.py"))["lines"]()
    assert "\n".join(lines) in page
    assert [line.split(" | ")[0].strip("| ") for line in lines[2::3]] == sorted({*METHODS.built_in} - {"p-darts"})
