"""What stands below a table: what its runs recorded, not who prints it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.spaces.nas_bench_201.cell import every_cell
from smallgroup.study import Plan, Store
from smallgroup.study.footer import footer, made_with
from tests.study.hand_made import by_row, store_of
from tests.study.test_table import plan_of

ROWS = {"group": lambda seed: [10.0 + seed], "taught": lambda seed: [11.0 + seed]}


def recorded(place: Path, cpu: str, notes: list[str]) -> None:
    """The files of a run that say where it was made."""
    place.mkdir(parents=True)
    (place / "config.yaml").write_text(f"environment: {{torch: 2.11.0, cpu: '{cpu}', threads: 1, kernels: plain}}\n")
    images = {"train": 5000, "unlabeled": 10_000, "measured": 7, "validation": "many"}
    versions = {"smallgroup": "0.0.9", "torch": "2.11.0"}
    facts = {"versions": versions, "machine": {"cores": 64}, "notes": notes, "images": images}
    (place / "facts.json").write_text(json.dumps(facts))


def a_store(tmp_path: Path) -> tuple[Plan, Store]:
    plan = plan_of(seeds=[1, 2])
    return plan, store_of(plan, tmp_path, by_row(ROWS))


def test_machines_are_those_of_the_runs(tmp_path: Path) -> None:
    plan, store = a_store(tmp_path)
    for number, run in enumerate(plan.runs):
        recorded(store.place(run), "slow" if number == 0 else "fast", ["half of the images"] if number else [])
    assert made_with(plan, store) == [
        "3 runs with smallgroup 0.0.9, torch 2.11.0, fast, 64 cores, threads 1, kernels plain",
        "1 run with smallgroup 0.0.9, torch 2.11.0, slow, 64 cores, threads 1, kernels plain",
        "4 runs with 5,000 training, 10,000 unlabeled images",
        "3 runs on half of the images",
    ]
    said = " ".join(footer(plan, store))
    assert "fast" in said
    assert "scipy" in said
    assert plan.hash in said


def test_runs_that_are_not_done_say_nothing(tmp_path: Path) -> None:
    plan, _ = a_store(tmp_path)
    recorded(Store(tmp_path).place(plan.runs[0]), "slow", [])
    assert made_with(plan, Store(tmp_path)) == []


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"versions": 3, "notes": 4, "images": 5}'])
def test_what_cannot_be_read_is_not_guessed(text: str, tmp_path: Path) -> None:
    plan, store = a_store(tmp_path)
    place = store.place(plan.runs[0])
    place.mkdir(parents=True)
    for name in ("config.yaml", "facts.json"):
        (place / name).write_text(text)
    assert made_with(plan, store) == ["4 runs without a record of versions and machine"]


def test_lookups_are_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = dict.fromkeys(every_cell(), 1.0)
    truth = Truth({"cifar10": column, "cifar100": column})
    monkeypatch.setattr("smallgroup.study.truth._found", lambda *_: truth)
    rows: list[dict[str, Any]] = [
        {"name": "random search", "baseline": {"kind": "random", "lookups": 70}},
        {"name": "untrained", "baseline": {"kind": "untrained"}},
    ]
    plan = plan_of(base={"dataset": "cifar10", "space": "nas-bench-201"}, rows=rows, claims=[])
    assert footer(plan, Store(tmp_path))[1:3] == [
        "random search: the best of 70 lookups in column cifar100, scored by column cifar10",
        "untrained: cells of architectures before their first step",
    ]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    plan, store = a_store(tmp_path)
    for run in plan.runs:
        recorded(store.place(run), "fast", [])
        (store.place(run) / "facts.json").unlink()
        os.mkfifo(store.place(run) / "facts.json")
    assert any("fast" in line for line in made_with(plan, store))


def test_the_rule_of_the_answers_is_named() -> None:
    retained = "retained: the cell of the learner with the lowest loss on all validation images"
    consensus = "consensus: the cell derived from the mean of the learners' scores"
    rows = [{"name": "group"}, {"name": "other", "config": {"search": {"answer": "consensus"}}}]
    for given, lines in (
        (rows[:1], [f"answer of every search: {retained}"]),
        (rows, [f"answer in group: {retained}", f"answer in other: {consensus}"]),
    ):
        plan = plan_of(rows=given, claims=[], seeds=[1])
        assert [line for line in footer(plan, Store(Path("nowhere"))) if line.startswith("answer")] == lines
