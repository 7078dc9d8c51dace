"""Who teaches whom, and what a group contributed: numbers that can be worked out by hand."""

import json
from pathlib import Path

import pytest

from smallgroup.api import read_one_run
from smallgroup.report.compare import contributions, differing_keys, pairs_of, twin_of
from smallgroup.report.teaching import teaching_of
from tests.report.makers import make_run


def test_the_strong_the_weak_and_what_became_of_them(tmp_path: Path) -> None:
    found = teaching_of(read_one_run(make_run(tmp_path)))
    assert found is not None
    assert found.moments == {"start": 0, "middle": 2, "end": 3}
    views = {one.name: one for one in found.classes}
    # At the start V of learner 0 recognises 90, 20, 90 percent of the classes, that of learner 1 20, 90, 20.
    assert [(views[n].strong, views[n].weak) for n in ("cat", "dog", "owl")] == [(0, 1), (1, 0), (0, 1)]
    assert [one.difference for one in found.classes] == [70.0, 70.0, 70.0]
    # Labels of learner 0: 4 of 8 right in each epoch; of learner 1: 6 of 8.
    assert [views[n].quality for n in ("cat", "dog", "owl")] == [50.0, 75.0, 50.0]
    # W of the weak one: from 20 to 80.
    assert [one.change for one in found.classes] == [60.0] * 3
    assert found.improved == 3
    assert found.truth


def test_agreement_takes_the_place_of_truth_that_is_not_known(tmp_path: Path) -> None:
    folder = make_run(tmp_path, learners=3)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        del row["pseudo_labels"]["right"], row["pseudo_labels"]["images"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = teaching_of(read_one_run(folder))
    assert found is not None
    assert not found.truth
    assert {one.quality for one in found.classes} == {25.0}  # 5 of 10 labels, with two peers to agree each


def test_one_learner_teaches_nobody(tmp_path: Path) -> None:
    assert teaching_of(read_one_run(make_run(tmp_path, learners=1))) is None


def test_a_twin_differs_in_lambda_alone(tmp_path: Path) -> None:
    taught = read_one_run(make_run(tmp_path / "a", error=10.0))
    alone = read_one_run(make_run(tmp_path / "b", config={"lambda": 0}, error=13.0))
    other = read_one_run(make_run(tmp_path / "c", config={"lambda": 0, "seed": 3}))
    longer = read_one_run(make_run(tmp_path / "d", config={"lambda": 0, "search": {"epochs": 9}}))
    trained = read_one_run(make_run(tmp_path / "e", config={"lambda": 0, "training": {"epochs": 9}}))
    assert pairs_of([taught, other, longer]) == []
    assert pairs_of([alone, other]) == []
    (pair,) = pairs_of([other, longer, alone, taught])
    assert (pair.taught, pair.alone) == (taught, alone)
    assert twin_of(taught, [pair]) is alone
    assert twin_of(alone, [pair]) is None
    assert len(pairs_of([taught, trained])) == 1  # how a cell is trained afterwards says nothing of the search
    assert differing_keys([taught, alone]) == {"search.lambda": [1.0, 0.0]}


def test_contributions_are_paired_by_seed(tmp_path: Path) -> None:
    runs = []
    for seed, (with_, without) in enumerate([(10.0, 13.0), (11.0, 12.0), (12.0, 14.0)]):
        runs.append(read_one_run(make_run(tmp_path / f"a{seed}", config={"seed": seed}, error=with_)))
        alone = {"seed": seed, "lambda": 0}
        runs.append(read_one_run(make_run(tmp_path / f"b{seed}", config=alone, error=without)))
    found = {one.title: one for one in contributions(pairs_of(runs))}
    error = found["validation error of the retained learner"]
    assert error.mean == pytest.approx(-2.0)
    assert error.comparison.n == (3, 3)
    assert error.comparison.p == pytest.approx(0.25)
    assert error.lower_is_better
    assert "test error after training" not in found
    accuracy = found["true accuracy on cifar10 of the retained cell"]
    assert (accuracy.mean, accuracy.lower_is_better) == (0.0, False)


def test_a_twin_shows_what_the_weak_reach_alone(tmp_path: Path) -> None:
    taught = read_one_run(make_run(tmp_path / "a"))
    twin = read_one_run(make_run(tmp_path / "b", config={"lambda": 0}))
    found = teaching_of(taught, twin)
    assert found is not None
    assert {one.twin for one in found.classes} == {80.0}


def test_the_weakest_of_three_is_the_weak_one(tmp_path: Path) -> None:
    folder = make_run(tmp_path, learners=3)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for one in rows:
        one["v_recognised"] = [[10.0, 90.0, 50.0][one["learner"]]] * 3
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    found = teaching_of(read_one_run(folder))
    assert found is not None
    assert {(one.strong, one.weak, one.difference) for one in found.classes} == {(1, 0, 80.0)}
