"""Stages of a search: networks that are rebuilt while it continues."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.methods import Continue, Decision, EpochEnd, Method, PDarts, Rebuild
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.brief import brief
from smallgroup.phases.search.timing import Estimate, fitted, measure
from smallgroup.runner import read_rows
from tests.runner.jobs import interrupted, runner

KEYS: dict[str, Any] = {
    "method": "p-darts",
    "learners": 2,
    "hypergradient": "first-order",
    "data": {"labeled_fraction": 0.05},
    "space": {"name": "darts", "channels": 2, "cells": 3},
    "methods": {"p-darts": {"added": [1, 2], "dropout": [0.2, 0.4, 0.6]}},
    "search": {
        "epochs": 3,
        "steps_per_epoch": 2,
        "batch_size": {"train": 4, "unlabeled": 4, "validation": 4},
        "v_warmup": 0.0,
        "architecture_warmup": 0.5,
    },
}


def job(**changes: Any) -> SearchJob:
    return make_job(resolve({**KEYS, **changes}))


def alone(**changes: Any) -> SearchJob:
    """One learner, where that is enough: its steps take a fifth of the time."""
    return job(learners=1, **changes)


def taken(search: SearchJob, steps: int) -> list[dict[str, Any]]:
    rows: list[Any] = []
    for _ in range(steps):
        rows += search.advance() or []
    return rows


def kept(search: SearchJob, learner: int) -> torch.Tensor:
    method = search.searchers[learner].relaxed.method
    return torch.cat([method.mask("normal"), method.mask("reduce")])


def test_stages_follow_one_another() -> None:
    search = job()
    first = [dict(searcher.learner.w) for searcher in search.searchers]
    assert [searcher.relaxed.space.cells for searcher in search.searchers] == [3, 3]  # type: ignore[attr-defined]
    rows = taken(search, 2)
    assert [row["stage"] for row in rows] == [0, 0]
    assert rows[0]["rebuilt"].startswith("p-darts in darts, stage 2 of 3, 4 cells, 5 operations per edge, ")
    for k, searcher in enumerate(search.searchers):
        relaxed, learner = searcher.relaxed, searcher.learner
        assert (relaxed.stage, relaxed.space.cells) == (1, 4)  # type: ignore[attr-defined]
        assert bool((kept(search, k).sum(dim=1) == 5).all())
        # Both sets of weights are of the new network, and nothing of the old one is left in them.
        assert learner.v is not None
        assert learner.v.keys() == learner.w.keys() == relaxed.initial_weights("w").keys()
        assert not torch.equal(learner.w["classifier.weight"], first[k]["classifier.weight"])
        assert not searcher.optimizers.w.state  # type: ignore[union-attr]
        assert search.group.learners[k] is learner
        names = {name.split(".")[6] for name in learner.w if name.startswith("cells.0.nodes.edges.1.operations")}
        present = search.searchers[k].relaxed.method.mask("normal")[1].tolist()
        assert names == {
            name
            for name, here in zip(relaxed.space.kinds["normal"].operations, present, strict=True)
            if here and "conv" in name
        }
    # Switches are the learner's own.
    assert not torch.equal(kept(search, 0), kept(search, 1))
    rows = taken(search, 4)
    assert [row["stage"] for row in rows] == [1, 1, 2, 2]
    assert "rebuilt" not in rows[-1]
    assert bool((kept(search, 0).sum(dim=1) == 3).all())
    assert search.finished
    assert search.step == 6


def test_rates_and_dropout_begin_anew() -> None:
    weights = {"lr": 0.1, "min_lr": 0.0}
    search = alone(search={**KEYS["search"], "epochs": 6, "steps_per_epoch": 1, "weights": weights})
    rates, dropouts = [], []
    while not search.finished:
        search.advance()
        searcher = search.searchers[0]
        rates.append(searcher.rates["w"])
        dropouts.append(float(searcher.relaxed.method.state["dropout"]))
    # After the last step of a stage the next one's optimizer is there, with its full rate.
    assert rates == pytest.approx([0.1, 0.1] * 2 + [0.1, 0.05])
    half = 0.5  # while the architecture rests, in the first of two epochs: p (2 - 0 - 1) / 2
    expected = [(p * half, p) for p in (0.2, 0.4, 0.6)]
    assert dropouts == pytest.approx([value for stage in expected for value in stage])


def test_a_search_goes_on_in_any_stage(tmp_path: Path) -> None:
    """Cut off in the middle of stages, and right between two: bit for bit."""
    whole = alone()
    runner(tmp_path / "whole").run(whole)
    for cut in (2, 3, 4):
        interrupted(alone(), tmp_path / "part", cut)
    again = alone()
    runner(tmp_path / "part").run(again, resume=True)
    left, right = whole.state()[0], again.state()[0]
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name
    rows = [list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part")]
    assert rows[0] == rows[1]


class Broken(PDarts):
    """Asks for a network that cannot be built."""

    name: ClassVar[str] = "broken"

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        decision = super().end_epoch(epoch)
        return Rebuild({"cells": 2}) if isinstance(decision, Rebuild) else decision


def test_a_stage_that_cannot_begin_changes_nothing() -> None:
    search = job(lam=0.0)
    search.searchers[1].relaxed.method.__class__ = Broken
    taken(search, 1)
    with pytest.raises(ValueError, match="cells"):
        search.advance()
    for k, searcher in enumerate(search.searchers):
        assert (searcher.relaxed.stage, searcher.relaxed.space.cells) == (0, 3)  # type: ignore[attr-defined]
        assert bool(kept(search, k).all())
    search.searchers[1].relaxed.method.__class__ = PDarts
    rows = taken(search, 1)
    assert [row["epoch"] for row in rows] == [0, 0]
    assert [searcher.relaxed.stage for searcher in search.searchers] == [1, 1]
    assert search.step == 2


def test_a_learner_without_stages_goes_on_beside_one_with_stages() -> None:
    search = job(method=None, learners=[{"method": "p-darts"}, {"method": "darts"}], lam=0.0)
    before = search.searchers[1].learner.w["classifier.weight"]
    rows = taken(search, 2)
    assert "rebuilt" in rows[0]
    assert "rebuilt" not in rows[1]
    assert "stage" not in rows[1]
    assert search.searchers[1].learner.w["classifier.weight"] is before
    taken(search, 4)
    assert [searcher.relaxed.stage for searcher in search.searchers] == [2, 0]


class Deeper(Method):
    """One more cell after the first epoch, with the architecture as it is."""

    name: ClassVar[str] = "deeper"

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        return Rebuild({"cells": 4}, keep_architecture=True) if epoch.progress.epoch == 0 else Continue()


def test_an_architecture_may_stay_when_the_network_is_built_anew() -> None:
    search = alone(method="darts", search={**KEYS["search"], "architecture_warmup": 0.0})
    search.searchers[0].relaxed.method.__class__ = Deeper
    taken(search, 1)
    architecture = search.searchers[0].learner.architecture["alpha_normal"]
    taken(search, 1)
    assert search.searchers[0].relaxed.space.cells == 4  # type: ignore[attr-defined]
    assert search.searchers[0].learner.architecture["alpha_normal"] is architecture
    adam: Any = search.searchers[0].optimizers.architecture
    assert float(adam.state[architecture]["step"]) == 2
    before = architecture.clone()
    taken(search, 1)
    assert not torch.equal(before, architecture)


def test_adam_is_that_of_the_method_and_of_the_stage() -> None:
    """P-DARTS clips; with `travel` a longer stage, here the last, has a lower rate."""
    architecture = {"travel": 0.001, "max_lr": 1.0}
    search = alone(search={**KEYS["search"], "epochs": 4, "steps_per_epoch": 1, "architecture": architecture})
    rates = []
    while not search.finished:
        assert search.searchers[0].optimizers.architecture_clip == 5.0
        rates.append(search.searchers[0].rates["a"])
        search.advance()
    assert rates == pytest.approx([0.001, 0.001, 0.0005, 0.0005])


def test_fewer_epochs_than_stages_are_refused() -> None:
    with pytest.raises(ValueError, match=r"p-darts has 3 stages of an epoch at least, but search\.epochs is 2"):
        job(search={**KEYS["search"], "epochs": 2})


def test_what_is_going_to_happen_is_said() -> None:
    lines = brief(job())
    assert any(line.startswith("learner 1: p-darts in darts, stage 1 of 3, 3 cells, 8 operations") for line in lines)
    steps = next(line for line in lines if line.startswith("steps:"))
    assert steps == "steps: 6 in 3 epochs: 3 times 1 of V and W, then 1 of the architecture too"
    gradient = next(line for line in lines if line.startswith("architecture gradient:"))
    assert "first order" in gradient
    assert "no term through a peer" in gradient


def test_the_time_of_every_stage_is_measured() -> None:
    search = alone()
    cost = measure(search)
    assert search.searchers[0].relaxed.stage == 2
    assert {stages for _, stages in cost.seconds} == {(0,), (1,), (2,)}
    assert all(seconds > 0 for seconds in cost.seconds.values())
    epochs, steps = fitted(search, cost, 10 * cost.of(search.course))
    assert epochs >= 10
    assert steps == 2


def test_a_stage_that_was_not_seen_is_taken_to_cost_what_the_last_one_does() -> None:
    search = alone(search={**KEYS["search"], "epochs": 3, "steps_per_epoch": 4})
    estimate = Estimate(search)
    assert estimate.left(0, 0.0) is None
    assert estimate.left(1, 10.0) is not None
    for step, seconds in ((2, 20.0), (3, 40.0)):
        left = estimate.left(step, seconds)
    ends = 2 * len(search.metrics.indices) / 4
    # Steps of weights take 10 s and others 20 s; the end of an epoch in proportion to its passes, 6 in a step.
    assert left == pytest.approx(20 + 2 * (2 * 10 + 2 * 20) + 3 * 20 * ends / 6)
