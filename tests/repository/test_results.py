"""The tables under `results/` are what the runs that lie beside them come to."""

import os
from pathlib import Path

import pytest

from smallgroup.study import Plan, Store, open_study, planned, tabulated
from smallgroup.study.archive import unpack
from smallgroup.study.formats import comma_separated, grid, markdown, sentence
from smallgroup.study.rederived import comparisons, tabulate_again, untaught_learners
from smallgroup.study.rederived import markdown as rederived_markdown

RESULTS = Path(__file__).parents[2] / "results"
PAGE = RESULTS / "first-studies.md"
STUDIES = {"teaching": "teaching", **{path.stem: str(path) for path in sorted(RESULTS.glob("*.yaml"))}}

COLUMNS = (
    "row",
    "percentile",
    "95 % interval of its mean",
    "true accuracy, %",
    "percentile, mean of all learners",
    "n",
)
"""Of a table that stand on the page."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Of the archive."""
    root = tmp_path_factory.mktemp("studies")
    unpack(RESULTS / "runs.tar.xz", root)
    return Store(root)


def plan_of(name: str) -> Plan:
    return planned(*open_study(STUDIES[name]))


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_is_there(name: str, store: Store) -> None:
    """Known by the hash of its config: who adds a key to configs must leave it out of the hash where it says what was
    so before, or everybody's finished runs are repeated."""
    assert [run.key for run in plan_of(name).runs if store.state(run) != "done"] == []


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
@pytest.mark.parametrize("name", STUDIES)
def test_the_table_is_that_of_its_runs(name: str, store: Store) -> None:
    plan = plan_of(name)
    table = tabulated(plan, store)
    written = (RESULTS / name / "table.md").read_text().splitlines()
    lines = markdown(table).splitlines()
    assert written[: len(lines)] == lines
    assert plan.hash in written[-1]
    assert comma_separated(table) == (RESULTS / name / "values.csv").read_text()
    # The page has its main columns, and the answers in the words of the table.
    page = " ".join(PAGE.read_text().split())  # wherever its lines end
    titles, rows = grid(table)
    shown = [titles.index(title) for title in COLUMNS]
    for row in rows:
        assert f"| {' | '.join(row[i] for i in shown)} |" in page
    for verdict in table.verdicts:
        assert sentence(verdict).partition(", by")[0] in page


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
@pytest.mark.parametrize("name", STUDIES)
def test_the_recomputed_table_is_that_of_the_logged_scores(name: str, store: Store) -> None:
    text = PAGE.read_text()
    plan = plan_of(name)
    rows = tabulate_again(plan, store)
    assert rederived_markdown(rows) in text
    for said in comparisons(plan, rows):
        assert f"- {said}" in " ".join(text.split())


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_what_the_page_says_of_learners_without_teaching(store: Store) -> None:
    page = " ".join(PAGE.read_text().split())
    for said in untaught_learners([plan_of(name) for name in STUDIES], store):
        assert f"- {said}" in page
