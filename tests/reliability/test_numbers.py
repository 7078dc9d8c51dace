"""Numbers that go wrong: a run stops before the update and can be resumed, or leaves the batch out and counts it."""

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import smallgroup
from smallgroup.config import resolve
from smallgroup.data.training_data import open_training_data
from smallgroup.group import NonFiniteError
from smallgroup.jobs import make_job
from smallgroup.methods import Relaxed
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.search import SearchJob, result
from smallgroup.phases.training.mutual import MutualJob
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.trainee import NonFiniteTrainingError, Trainee
from smallgroup.runner import Watcher, read_rows
from smallgroup.runner.skips import Skips
from smallgroup.spaces.genotypes import resolve as resolve_genotype
from tests.reliability.runs import Captured, refused
from tests.runner.jobs import Walk, runner
from tests.tools import chaos
from tests.tools.chaos.subjects import CELL, TRAINING

SMALL: dict[str, Any] = {
    **chaos.SMALL,
    "learners": 2,
    "hypergradient": "first-order",
    "search": {
        "epochs": 2,
        "steps_per_epoch": 2,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "v_warmup": 0.1,
        "architecture_warmup": 0.2,
    },
}
PHASES = {"v": 1, "label": 2, "w": 2, "w_unlabeled": 2, "val": 3}


def spoil(monkeypatch: pytest.MonkeyPatch, learner: int, phase: str, steps: range, change: Any = None) -> None:
    """Let the answers of a learner in a phase of some steps be NaN, or what `change` makes of them."""
    original = Relaxed.__call__

    def call(self: Relaxed, *arguments: Any, **options: Any) -> Tensor:
        logits: Tensor = original(self, *arguments, **options)
        if self.learner == learner and options.get("phase") == phase and self.step in steps:
            return logits * math.nan if change is None else change(logits)
        return logits

    monkeypatch.setattr(Relaxed, "__call__", call)


@pytest.mark.parametrize(
    ("learner", "phase"), [(0, "v"), (1, "v"), (0, "label"), (1, "w"), (0, "w_unlabeled"), (0, "val"), (1, "val")]
)
def test_nan_in_every_stage_of_every_learner(
    learner: int, phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops before the update; resumed, it may leave that batch out, and ends well."""
    spoil(monkeypatch, learner, phase, range(2, 3))
    with pytest.raises(NonFiniteError, match=f"of learner {learner} is not finite in stage {PHASES[phase]} of step 2"):
        smallgroup.search(SMALL, out=tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir())[-1] == "000000000002"
    told: list[str] = []

    class Witness(Watcher):
        def told(self, sentence: str) -> None:
            told.append(sentence)

    result = smallgroup.search({**SMALL, "on_nonfinite": "skip"}, out=tmp_path, resume=True, watcher=Witness())
    assert math.isfinite(result.validation_loss)
    assert told == [sentence for sentence in told if "the batch of step 2 is skipped" in sentence]
    assert [row.get("left_out") for row in read_rows(tmp_path / "metrics.jsonl")] == [None, None, 1, 1]


def test_a_batch_that_is_left_out_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(resolve(SMALL))
    job.advance()
    before = {name: tensor.clone() for name, tensor in job.state()[0].items()}
    spoil(monkeypatch, 1, "val", range(1, 2))
    with pytest.raises(NonFiniteError):
        job.advance()
    assert job.leave_out()
    after = job.state()[0]
    assert job.step == 2
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if not name.endswith("relaxed.step"))
    assert not job.leave_out()  # an epoch is to be summed up first: no batch
    job.close()


class Failing(Walk):
    """Fails at some steps, as long as they are not left out."""

    bad: frozenset[int] = frozenset()

    def advance(self) -> Any:
        if self.step in self.bad:
            raise FloatingPointError(f"step {self.step}")
        return super().advance()


def failing(*steps: int) -> Failing:
    job = Failing()
    job.bad = frozenset(steps)
    return job


@pytest.mark.filterwarnings("ignore:the batch of step")
def test_it_gives_up_after_so_many_in_a_row(tmp_path: Path) -> None:
    runner(tmp_path / "some", skips=Skips(2)).run(failing(1, 2, 6, 8))
    assert [row.get("left_out") for row in read_rows(tmp_path / "some" / "metrics.jsonl")] == [2, 2, None, None]
    with pytest.raises(FloatingPointError, match="step 3") as caught:
        runner(tmp_path / "many", skips=Skips(2)).run(failing(1, 2, 3))
    assert any("the 2 batches before it were skipped" in note for note in caught.value.__notes__)
    with pytest.raises(FloatingPointError, match="step 3"):  # also if it is asked again
        runner(tmp_path / "many", skips=Skips(2)).run(failing(1, 2, 3), resume=True)
    runner(tmp_path / "many", skips=Skips(3)).run(failing(1, 2, 3), resume=True)
    assert next(read_rows(tmp_path / "many" / "metrics.jsonl"))["left_out"] == 3


def test_other_errors_are_never_left_out(tmp_path: Path) -> None:
    job = Walk()
    job.advance = lambda: 1 // 0  # type: ignore[method-assign,return-value,assignment]
    with pytest.raises(ZeroDivisionError):
        runner(tmp_path, skips=Skips(9)).run(job)


def test_a_training_leaves_batches_out_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**TRAINING, "data": {"data_root": "nowhere"}, "on_nonfinite": "skip"}
    original, bad = Trainee._loss, [1]

    def loss(self: Trainee, logits: Any, labels: Tensor) -> Tensor:
        found = original(self, logits, labels)
        return found * math.nan if self.network.training and calls() in bad else found

    count = iter(range(10**6))

    def calls() -> int:
        return next(count) // 2  # the head and what would be the auxiliary one

    monkeypatch.setattr(Trainee, "_loss", loss)
    with pytest.warns(UserWarning, match="the batch of step 1 is skipped"):
        smallgroup.train("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|none~2|", config, out=tmp_path)
    assert [row.get("left_out") for row in read_rows(tmp_path / "metrics.jsonl")] == [1, None]
    bad[:] = range(10**6)
    config["run"] = {**config["run"], "most_skipped": 99}
    with (
        pytest.raises(NonFiniteTrainingError, match="not one batch of epoch 1"),
        pytest.warns(UserWarning, match="is skipped"),
    ):
        smallgroup.train("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|none~2|", config)


@pytest.mark.parametrize("tracked", [False, True])
def test_a_network_that_cannot_answer_has_no_test_error(tracked: bool, tmp_path: Path, capsys: Captured) -> None:
    """Every loss and gradient was finite, but the last update was too large."""
    keys = {"lr": 1e30, "epochs": 1, "steps_per_epoch": 1, "batch_size": 8, "track_test": tracked, "validation": 0}
    keys |= {"network.channels": 2, "network.cells_per_stage": 1}
    changes = [f"--set=training.{key}={value}" for key, value in keys.items()]
    said = refused(capsys, "train", CELL, "--data-root=nowhere", *changes, "--out", str(tmp_path), code=1)
    assert "the loss on the test images must be finite, but it is nan" in said
    assert "lower training.lr" in said
    assert not (tmp_path / "result.json").exists()
    assert not (tmp_path / "model.json").exists()


def test_of_a_group_it_is_said_who_cannot_answer() -> None:
    config = resolve({**TRAINING, "data": {"data_root": "nowhere"}})
    genotype = resolve_genotype(CELL)[1]
    data = open_training_data(config.data, config.training.augmentation, seed=0)
    job = MutualJob(config.training, data, Peers((genotype, genotype)), seed=0)
    job.trainees[1].shipped.classifier.bias.data[0] = math.nan
    job.trainees[0].test()
    with pytest.raises(NonFiniteTrainingError, match="the loss of learner 1 on the test images must be finite"):
        job.trainees[1].test()
    job.close()


@pytest.mark.parametrize("whose", ["V", "the derived cell"])
def test_nor_has_a_searched_network(whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(make_job(resolve(SMALL))) as job:
        job.advance()
        monkeypatch.setattr(job.metrics, "with_v", True)
        if whose == "V":
            for tensor in (job.searchers[1].learner.v or {}).values():
                tensor.data.fill_(math.nan)
        else:
            derived = Relaxed.derived_logits
            monkeypatch.setattr(Relaxed, "derived_logits", lambda *args: derived(*args) * math.nan)
        with pytest.raises(NonFiniteError, match=f"the validation loss .*{whose} at the end of epoch 1 of learner"):
            job.metrics.rows(0)


def test_nor_on_images_that_were_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(make_job(resolve({**SMALL, "data": {"data_root": "nowhere", "held_out": 0.2}}))) as job:
        kept = job.data.splits.held_out

        def spoiled(*arguments: Any, **options: Any) -> Evaluation:
            found = evaluate(*arguments, **options)
            return replace(found, loss=math.nan) if arguments[3] is kept else found

        monkeypatch.setattr(result, "evaluate", spoiled)
        with pytest.raises(NonFiniteError, match="the loss on all held-out images of learner 0 is not finite"):
            result.conclude(job, seed=0, seconds=0.0, folder=tmp_path)


def taken(job: SearchJob, steps: int = 3) -> SearchJob:
    """Some steps of a search, after which every number of its state is finite."""
    for _ in range(steps):
        job.advance()
    assert all(bool(t.isfinite().all()) for t in job.state()[0].values() if t.is_floating_point())
    job.close()
    return job


def test_a_loss_spike_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, 0, "w", range(1, 2), lambda logits: logits * 1e6)
    taken(make_job(resolve(SMALL)))


def test_zero_gradients_are_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in PHASES:
        spoil(monkeypatch, 0, phase, range(4), lambda logits: logits * 0)
    taken(make_job(resolve(SMALL)))


def test_identical_learners_stay_identical() -> None:
    made = make_job(resolve(SMALL))
    methods = [(one.relaxed.space, type(one.relaxed.method)()) for one in made.searchers]
    job = taken(SearchJob(made.config, made.data, methods, seed=0, numbers=[0, 0]))
    first, second = (searcher.learner.w for searcher in job.searchers)
    assert all(torch.equal(first[name], second[name]) for name in first)


EXTREMES: dict[str, dict[str, Any]] = {
    "one learner": {"learners": 1},
    "a huge lambda": {"lambda": 1e12, "hypergradient": "finite-difference"},
    "a tiny radius": {"search": {**SMALL["search"], "radius": 1e-12}, "hypergradient": "finite-difference"},
    "a huge radius": {"search": {**SMALL["search"], "radius": 1e6}, "hypergradient": "finite-difference"},
    "without momentum and decay": {"search": {**SMALL["search"], "weights": {"momentum": 0, "weight_decay": 0}}},
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_give_finite_numbers(name: str) -> None:
    taken(make_job(resolve({**SMALL, **EXTREMES[name]})))


def test_a_batch_larger_than_the_data_is_refused_or_taken() -> None:
    sizes = {"train": 100_000, "unlabeled": 100_000, "validation": 100_000}
    keys = {**SMALL, "search": {**SMALL["search"], "batch_size": sizes, "steps_per_epoch": 1}}
    with pytest.raises(ValueError, match="batch"):
        make_job(resolve(keys))


@pytest.mark.parametrize("operation", ["skip_connect", "none", "avg_pool_3x3"])
def test_cells_of_one_operation_are_trained_or_refused(operation: str) -> None:
    """A cell of nothing but skips has no weights of its own; one of nothing but `none` answers the same to all."""
    cell = f"|{operation}~0|+|{operation}~0|{operation}~1|+|{operation}~0|{operation}~1|{operation}~2|"
    training = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "network": {"channels": 2, "cells_per_stage": 1}}
    result = smallgroup.train(cell, {"training": training, "data": {"data_root": "nowhere"}})
    assert result.test_error is not None
    assert 0 <= result.test_error <= 100
