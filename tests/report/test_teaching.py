"""Who teaches whom, and what a group contributed: numbers that can be worked out by hand."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smallgroup.pages import read_one_run
from smallgroup.report import Run, SearchSteps, page
from smallgroup.report.compare import (
    SeedPairs,
    contributions,
    differently_trained,
    differing_keys,
    head_start,
    pairs_of,
    settings_of,
    twin_of,
)
from smallgroup.report.curves import REBUILT
from smallgroup.report.teaching import ClassView, teaching_of
from tests.report.makers import add_training, make_run


def roles(view: ClassView) -> tuple[int, int, float | None]:
    """Strong, weak, quality of the strong one's labels."""
    assert view.roles is not None
    return view.roles.strong, view.roles.weak, view.roles.quality


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A run whose rows have been changed."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for one in rows:
        change(one)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return folder


def test_where_all_are_alike_nobody_is_strong(tmp_path: Path) -> None:
    def tie(one: dict[str, Any]) -> None:
        if one["epoch"] == 0:
            one["v_recognised"][0] = 0.0

    run = read_one_run(changed(make_run(tmp_path), tie))
    found = teaching_of(run)
    assert found is not None
    (view,) = [one for one in found.classes if one.name == "cat"]
    assert (view.roles, view.difference, found.classes[-1]) == (None, 0.0, view)
    assert (found.improved, len(found.differing)) == (2, 2)
    made = page([run])
    assert "no difference: 0 % each" in made
    assert "In 1 of 3 classes V does not differ at the start. In 2 of the 2 others W of the learner" in made


def test_of_three_two_may_be_the_strongest(tmp_path: Path) -> None:
    def tie(one: dict[str, Any]) -> None:
        one["v_recognised"] = [[90.0, 90.0, 20.0][one["learner"]]] * 3

    made = page([read_one_run(changed(make_run(tmp_path, learners=3), tie))])
    assert "learner 0: 90 % (as 1)" in re.sub("<[^>]*>", "", made)


def test_labels_have_a_quality_by_class_learner_and_moment(tmp_path: Path) -> None:
    def improve(one: dict[str, Any]) -> None:
        one["pseudo_labels"]["right"] = [2 * one["epoch"] + one["learner"], 8, 0]
        one["pseudo_labels"]["images"][2] = 0

    run = read_one_run(changed(make_run(tmp_path), improve))
    found = teaching_of(run)
    assert found is not None
    views = {one.name: one for one in found.classes}
    assert views["cat"].labels == {"start": [0.0, 12.5], "middle": [50.0, 62.5], "end": [75.0, 87.5]}
    assert views["dog"].labels["start"] == [100.0, 100.0]
    assert views["owl"].labels["end"] == [None, None]
    assert "from metrics.jsonl line 8: pseudo_labels.right[0]" in page([run])


def test_the_strong_the_weak_and_what_became_of_them(tmp_path: Path) -> None:
    found = teaching_of(read_one_run(make_run(tmp_path)))
    assert found is not None
    assert found.moments == {"start": 1, "middle": 3, "end": 4}
    views = {one.name: one for one in found.classes}
    # At the start V of learner 0 recognizes 90, 20, 90 percent of the classes, that of learner 1 20, 90, 20.
    assert [roles(views[n])[:2] for n in ("cat", "dog", "owl")] == [(0, 1), (1, 0), (0, 1)]
    assert [one.difference for one in found.classes] == [70.0, 70.0, 70.0]
    # Labels of learner 0: 4 of 8 right in each epoch; of learner 1: 6 of 8.
    assert [roles(views[n])[2] for n in ("cat", "dog", "owl")] == [50.0, 75.0, 50.0]
    # W of the weak one: from 20 to 80.
    assert [one.change for one in found.differing] == [60.0] * 3
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
    assert {one.quality for one in found.differing} == {25.0}  # 5 of 10 labels, with two peers to agree each


def rebuilt_after(*epochs: int) -> Callable[[dict[str, Any]], None]:
    """Networks are rebuilt at the ends of these epochs: now that of learner 0, now that of learner 1."""

    def change(one: dict[str, Any]) -> None:
        if one["epoch"] in epochs and one["learner"] == epochs.index(one["epoch"]) % 2:
            one["rebuilt"] = "another stage"
        one["pseudo_labels"]["right"] = [one["epoch"]] * 3

    return change


def test_start_and_end_are_of_the_same_networks(tmp_path: Path) -> None:
    run = read_one_run(changed(make_run(tmp_path / "a", epochs=6), rebuilt_after(0, 2)))
    found = teaching_of(run, run)
    assert found is not None
    assert run.rebuilds == [1, 3]
    assert (found.moments, found.same_networks) == ({"start": 4, "middle": 5, "end": 6}, True)
    assert {one.quality for one in found.differing} == {50.0}  # 3 + 4 + 5 of 24 labels: those of these networks alone
    assert [one.change for one in found.differing] == pytest.approx([24.0] * 3)  # from 56 to 80
    made = page([run])
    assert "Networks were rebuilt after epochs 1, 3: these epochs are of one stage, the last with two" in made
    assert REBUILT in made
    assert "metrics.jsonl: pseudo_labels, summed over epochs 4 to 6" in made


def test_a_last_stage_of_one_epoch_is_no_course(tmp_path: Path) -> None:
    run = read_one_run(changed(make_run(tmp_path / "a", epochs=6), rebuilt_after(1, 4)))
    found = teaching_of(run, run)
    assert found is not None
    assert found.moments == {"start": 3, "middle": 4, "end": 5}
    # The run without teaching is looked at where this one is: W of the weak has 20 + 60 * 4 / 5 there.
    assert {one.twin for one in found.differing} == {68.0}


def test_networks_that_were_all_built_anew_are_told_of(tmp_path: Path) -> None:
    run = read_one_run(changed(make_run(tmp_path, epochs=3), rebuilt_after(0, 1)))
    found = teaching_of(run)
    assert found is not None
    assert (found.moments, found.same_networks) == ({"start": 1, "middle": 2, "end": 3}, False)
    assert "after epochs 1, 2: start and end are of different networks" in page([run])
    assert "Networks were rebuilt" not in page([read_one_run(make_run(tmp_path / "plain"))])


def test_one_learner_teaches_nobody(tmp_path: Path) -> None:
    assert teaching_of(read_one_run(make_run(tmp_path, learners=1))) is None


def test_a_twin_differs_in_lambda_alone(tmp_path: Path) -> None:
    taught = read_one_run(make_run(tmp_path / "a", config={"lambda": 1}, error=10.0))
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
    (setting,) = settings_of(pairs_of(runs))
    found = {one.title: one for one in contributions(setting)}
    error = found["validation error of the retained learner"]
    assert error.mean == pytest.approx(-2.0)
    assert error.comparison.n == (3, 3)
    assert error.comparison.p == pytest.approx(0.25)
    assert error.lower_is_better
    assert "test error after training" not in found
    accuracy = found["true accuracy on cifar10 of the answer"]
    assert (accuracy.mean, accuracy.lower_is_better) == (0.0, False)


def searched(folder: Path, error: float, lam: float, seed: int = 0, epochs: int = 10) -> Run:
    """A finished search."""
    config = {"seed": seed, "search": {"lambda": lam, "epochs": epochs}}
    return read_one_run(make_run(folder, error=error, config=config))


def test_pairs_that_differ_in_more_than_the_seed_are_told_apart(tmp_path: Path) -> None:
    one, one_alone = searched(tmp_path / "one", 10.0, 1.0), searched(tmp_path / "one-alone", 20.0, 0.0)
    long, long_alone = searched(tmp_path / "long", 50.0, 1.0, epochs=5), searched(tmp_path / "la", 10.0, 0.0, epochs=5)
    half = searched(tmp_path / "half", 14.0, 0.5)
    other, other_alone = searched(tmp_path / "other", 12.0, 1.0, seed=1), searched(tmp_path / "oa", 16.0, 0.0, seed=1)
    runs = [long, long_alone, one, half, one_alone, other, other_alone, one]
    told = []
    for setting in settings_of(pairs_of(runs)):
        error = contributions(setting)[0]
        told.append(([pair.taught.name for pair in setting.pairs.values()], error.mean, error.comparison.n[0]))
    assert told == [(["long"], 40.0, 1), (["one", "other"], -7.0, 2), (["half"], -6.0, 1)]
    words = re.sub("<[^>]*>", "", page(runs))
    for names in (
        "(1 and 0): long against la.",
        "(1 and 0): one against one-alone; other against oa. Not counted, because a search with the same config and "
        "seed is already included: one.",
        "(0.5 and 0): half against one-alone.",
    ):
        assert f"Pairs that differ in lambda alone {names}" in words


def accurate(folder: Path, accuracy: float, lam: float) -> Run:
    """A search whose cell has a known accuracy."""
    make_run(folder, config={"lambda": lam})
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "true_accuracy": {"cifar10": accuracy}}))
    return read_one_run(folder)


def test_more_accuracy_is_better_and_less_is_worse(tmp_path: Path) -> None:
    high, low = 94.0, 91.5
    for place, (taught, alone, verdict) in enumerate(
        [(high, low, "+2.500 points (better)"), (low, high, "−2.500 points (worse)")]
    ):
        folder = tmp_path / str(place)
        made = page([accurate(folder / "taught", taught, 1.0), accurate(folder / "alone", alone, 0.0)])
        assert f"true accuracy on cifar10 of the answer: {verdict}" in made


def waiting(folder: Path, **search: Any) -> SeedPairs:
    """A search of 40 steps and its twin without teaching."""
    runs = [
        read_one_run(
            make_run(
                folder / str(lam), config={"search": {"epochs": 4, "steps_per_epoch": None, "lambda": lam, **search}}
            )
        )
        for lam in (1.0, 0.0)
    ]
    (setting,) = settings_of(pairs_of(runs))
    return setting


def test_steps_in_which_only_the_taught_wait_are_told_of(tmp_path: Path) -> None:
    setting = waiting(tmp_path / "waits", v_warmup=0.1)
    assert "W learns in these steps too: 4 more of 40." in head_start(setting)
    pair = setting.pairs[0]
    assert pair.alone.given.steps == SearchSteps(40, 0)
    made = page([pair.taught, pair.alone])
    assert made.count("W learns in these steps too: 4 more of 40.") == 2  # of all pairs, and of this run
    assert head_start(waiting(tmp_path / "at-once", v_warmup=0.0)) == ""
    assert head_start(waiting(tmp_path / "no-v", v_warmup=0.1, labels_from="w")) == ""
    assert "25 more of 500" in head_start(waiting(tmp_path / "long", v_warmup=0.05, steps_per_epoch=125))
    (tmp_path / "waits" / "1.0" / "facts.json").unlink()
    assert read_one_run(tmp_path / "waits" / "1.0").given.steps is None


def test_a_twin_shows_what_the_weak_reach_alone(tmp_path: Path) -> None:
    taught = read_one_run(make_run(tmp_path / "a"))
    twin = read_one_run(make_run(tmp_path / "b", config={"lambda": 0}))
    found = teaching_of(taught, twin)
    assert found is not None
    assert {one.twin for one in found.differing} == {80.0}


def test_the_weakest_of_three_is_the_weak_one(tmp_path: Path) -> None:
    folder = make_run(tmp_path, learners=3)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for one in rows:
        one["v_recognised"] = [[10.0, 90.0, 50.0][one["learner"]]] * 3
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    found = teaching_of(read_one_run(folder))
    assert found is not None
    assert {(*roles(one)[:2], one.difference) for one in found.classes} == {(1, 0, 80.0)}


def test_test_errors_are_compared_where_the_trainings_are_alike(tmp_path: Path) -> None:
    taught = make_run(tmp_path / "a")
    alone = make_run(tmp_path / "b", config={"lambda": 0})
    longer = make_run(tmp_path / "c", config={"lambda": 0})
    add_training(taught, error=7.5)
    add_training(alone, error=9.0, config={"lambda": 0})
    add_training(longer, error=6.0, config={"lambda": 0, "training": {"epochs": 9}})
    (alike,) = settings_of(pairs_of([read_one_run(taught), read_one_run(alone)]))
    found = {one.title: one for one in contributions(alike)}
    assert found["test error after training"].mean == -1.5
    assert differently_trained(alike) == ""
    (other,) = settings_of(pairs_of([read_one_run(taught), read_one_run(longer)]))
    assert "test error after training" not in {one.title for one in contributions(other)}
    assert "not compared, because the trainings have different settings (a, c)" in differently_trained(other)
    assert "the trainings have different settings" in page([read_one_run(taught), read_one_run(longer)])
