"""The study under `results/teaching-2` is what its protocol says, in every arm."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from smallgroup.config import Config
from smallgroup.study import Plan, Store, open_study, planned, tabulated
from smallgroup.study.archive import unpack
from smallgroup.study.formats import comma_separated, grid, markdown
from smallgroup.study.measures import count_passes

FOLDER = Path(__file__).parents[2] / "results" / "teaching-2"
GROUP, SELF_TAUGHT, PAIR = "teaching pair", "self-taught pair", "independent pair"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(*open_study(str(FOLDER / "primary.yaml")))


def config(plan: Plan, row: str, seed: int = 1001) -> Config:
    return next(line.runs[seed].search.config for line in plan.lines if line.name == row)


def flat(keys: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in keys.items():
        found |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return found


def test_the_setting_is_the_one_of_the_protocol(plan: Plan) -> None:
    group = config(plan, GROUP)
    search, data = group.search, group.data
    assert plan.study.seeds == tuple(range(1001, 1065))
    assert (search.lam, search.hypergradient, search.targets, len(group.learners)) == (
        1.0,
        "finite-difference",
        "peers",
        2,
    )
    assert (data.dataset, data.unlabeled, group.space.name) == ("cifar10", "cifar100", "nas-bench-201")
    assert (search.epochs * (search.steps_per_epoch or 0), search.architecture_warmup) == (240, 0.75)


@pytest.mark.parametrize(
    ("row", "differences"),
    [
        (SELF_TAUGHT, {"search.targets": "own"}),
        (PAIR, {"search.lambda": 0.0}),
    ],
)
def test_controls_differ_in_one_thing(row: str, differences: dict[str, Any], plan: Plan) -> None:
    """Whatever the recipe becomes; and seed by seed, so that they are paired."""
    for seed in (1001, 1064):
        own, group = (flat(config(plan, name, seed).to_dict()) for name in (row, GROUP))
        assert {key: value for key, value in own.items() if group[key] != value} == differences


def test_equal_passes_are_equal(plan: Plan) -> None:
    """Within 3 %, which is as near as whole learners come; the self-taught make exactly the passes of the group."""
    passes = {line.name: count_passes(config(plan, line.name), 40) for line in plan.lines if line.runs}
    assert passes[SELF_TAUGHT] == passes[GROUP]
    equal = [count for name, count in passes.items() if "equal passes" in name]
    assert equal == pytest.approx([passes[GROUP]] * 2, rel=0.03)


def test_what_is_claimed_is_above_both_in_two_endpoints(plan: Plan) -> None:
    study = plan.study
    assert study.primary == "percentile_at_cost"
    assert study.takes_means
    assert [(claim.row, claim.than) for claim in study.claims] == [(GROUP, (SELF_TAUGHT, PAIR))] * 2
    assert [(claim.measure or study.primary, claim.margin) for claim in study.claims] == [
        ("percentile_at_cost", 5.0),
        ("score_correlation", 0.1),
    ]


def test_the_protocol_names_what_the_study_has(plan: Plan) -> None:
    text = (FOLDER / "protocol.md").read_text()
    for name in (line.name for line in plan.lines):
        assert f"| {name} |" in text
    for number in ("1001-1064", "n = 64", "within 5 points", "within 0.1"):
        assert number in text


@pytest.fixture(scope="module")
def exploring() -> Plan:
    return planned(*open_study(str(FOLDER / "explore.yaml")))


def test_what_is_explored_begins_at_the_setting_of_the_primary_study(plan: Plan, exploring: Plan) -> None:
    assert exploring.study.seeds == tuple(range(101, 117))
    assert not exploring.study.claims
    base, group = (flat(config(*at).to_dict()) for at in ((exploring, "base: group", 101), (plan, GROUP)))
    assert {key for key in group if base[key] != group[key]} == {"seed", "search.answer"}


@pytest.mark.parametrize(
    ("control", "difference"), [("self-taught", {"search.targets": "own"}), ("independent", {"search.lambda": 0.0})]
)
def test_every_setting_that_is_explored_has_controls_that_differ_in_one_thing(
    control: str, difference: dict[str, Any], exploring: Plan
) -> None:
    settings = [line.name.removesuffix(f": {control}") for line in exploring.lines if line.name.endswith(control)]
    assert len(settings) == {"self-taught": 19, "independent": 11}[control]
    for setting in settings:
        own, group = (flat(config(exploring, f"{setting}: {arm}", 101).to_dict()) for arm in (control, "group"))
        assert {key: value for key, value in own.items() if group[key] != value} == difference, setting


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_tables_and_pages_are_those_of_the_archived_runs(tmp_path: Path) -> None:
    """The table, its rows on both pages, the figure, and what is said of bounds and of learning."""
    unpack(FOLDER / "runs.tar.xz", tmp_path)
    name, study = open_study(str(FOLDER / "primary.yaml"))
    table = tabulated(planned(name, study, "pair"), Store(tmp_path))
    lines = markdown(table).splitlines()
    assert (FOLDER / "primary" / "table.md").read_text().splitlines()[: len(lines)] == lines
    assert comma_separated(table) == (FOLDER / "primary" / "values.csv").read_text()
    assert [verdict.answer for verdict in table.verdicts] == ["undecided", "equivalent"]

    titles, rows = grid(table)
    paper, results = (
        (FOLDER.parents[1] / page).read_text() for page in ("docs/when-teaching-helps.md", "results/README.md")
    )
    main = ("row", "percentile among cells of the same cost", "correlation of scores with true effects")
    for row in rows:
        of = dict(zip(titles, row, strict=True))
        arm, at_cost, correlation = (of[title] for title in main)
        assert f"| {arm} | {at_cost} | {correlation} | {of['percentile']} | {of['validation error, %']} |" in paper
        assert f"| {arm} | {at_cost} | {of['95 % interval of its mean']} | {correlation} |" in results

    def run(script: str, *arguments: Path | str) -> str:
        command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        return done.stdout

    bounds = run("bounds.py", tmp_path)
    for said in ("mean +3.84", "mean -3.22", "mean +3.55", "mean -2.84", "below +1.40", "= 0.0021", "= 0.34"):
        assert said in bounds
    run("learning.py", tmp_path, "--out", tmp_path / "learning.json")
    written = json.loads((FOLDER / "learning.json").read_text())
    assert json.loads((tmp_path / "learning.json").read_text()) == written
