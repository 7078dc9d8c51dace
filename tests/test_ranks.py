"""Commands on real ranks: the bits of one process, one folder, one voice; and every rank ends alike."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from smallgroup import api
from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.data import Reader, SearchData
from smallgroup.group import SmallGroup
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.training import TrainingJob
from smallgroup.runtime import environment, world
from smallgroup.runtime.launch import Launch
from tests.tools.chaos.compare import differences, durable
from tests.tools.chaos.subjects import CELL, SMALL, TRAINING, warm_up
from tests.tools.launched import Ended, launch

CONFIG: dict[str, Any] = {
    **SMALL,
    "learners": [{"method": "darts"}, {"method": "gdas"}, {"method": "darts-minus"}],
    "hypergradient": "first-order",
    "search": {**SMALL["search"], "epochs": 2, "steps_per_epoch": 2},
}


PATCH = pytest.MonkeyPatch()
"""Of the processes of ranks, which end with what was changed in them."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The search by one process."""
    warm_up()
    folder = tmp_path_factory.mktemp("alone") / "run"
    api.search(resolve(CONFIG), out=folder, progress=False)
    return folder


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "config.yaml").write_text(resolve(CONFIG).to_yaml())
    return ["search", "--config", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run")]


def codes(ended: Sequence[Ended]) -> list[int]:
    return [one.code for one in ended]


def all_failed(ended: Sequence[Ended], code: int) -> bool:
    """Whether rank 0 ended with a code, and no other rank with success."""
    return ended[0].code == code and all(one.code for one in ended)


def at_step(step: int, do: Callable[[], None]) -> None:
    """Do something on this rank when a step begins."""
    take = SearchJob.take

    def taken(job: SearchJob, *arguments: Any) -> Any:
        if job.step == step:
            do()
        return take(job, *arguments)

    PATCH.setattr(SearchJob, "take", taken)


def test_three_learners_on_two_ranks_write_what_one_process_does(alone: Path, words: list[str], tmp_path: Path) -> None:
    ended = launch(words, tmp_path / "ranks")
    assert codes(ended) == [0, 0], ended
    assert differences(alone, tmp_path / "run") == []
    assert "retained" in ended[0].out
    assert ended[1].out == ""  # one display
    assert [line for line in ended[1].said.splitlines() if "[c10d]" not in line] == []  # which misses name servers


def test_a_search_that_is_asked_to_end_on_one_rank_goes_on_with_another_number_of_ranks(
    alone: Path, words: list[str], tmp_path: Path
) -> None:
    def prepare(rank: int) -> None:
        if rank == 1:
            at_step(1, lambda: os.kill(os.getpid(), signal.SIGTERM))

    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert all_failed(ended, 128 + signal.SIGTERM)
    assert "ended by SIGTERM after step 2" in ended[0].said
    assert durable(tmp_path / "run") == {".": 2}
    files = {path.name for path in (tmp_path / "run" / "checkpoints" / f"{2:012d}").iterdir()}
    assert files == {"manifest.json", "record.json", *(f"learner-{k}.safetensors" for k in range(3))}

    ended = launch([*words, "--resume"], tmp_path / "again", ranks=3)
    assert codes(ended) == [0, 0, 0]
    assert "resumed after step 2" in ended[0].said
    assert differences(alone, tmp_path / "run") == []


def test_a_killed_rank_ends_the_others_without_a_checkpoint_and_one_process_goes_on(
    alone: Path, words: list[str], tmp_path: Path
) -> None:
    def prepare(rank: int) -> None:
        if rank == 1:
            at_step(3, lambda: os.kill(os.getpid(), signal.SIGKILL))

    start = time.monotonic()
    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert ended[1].code == -signal.SIGKILL
    assert all_failed(ended, 1)
    # SIGTERM may come before rank 0 has noticed.
    assert "a rank has died" in ended[0].said or ended[0].code == -signal.SIGTERM
    assert time.monotonic() - start < 120  # and not the half hour that ranks wait for one that hangs
    assert durable(tmp_path / "run") == {".": 3}  # each step is saved; the fourth was not taken
    api.search(resolve(CONFIG), out=tmp_path / "run", resume=True, progress=False)
    assert differences(alone, tmp_path / "run") == []


def fail_in_training(step: int) -> None:
    """On this rank, let the loss of W be infinite once."""

    def spoil() -> None:
        step_of = SmallGroup.step

        def spoiled(group: SmallGroup, train: Any, *arguments: Any, **options: Any) -> Any:
            PATCH.setattr(SmallGroup, "step", step_of)
            return step_of(group, (train[0] * float("nan"), train[1]), *arguments, **options)

        PATCH.setattr(SmallGroup, "step", spoiled)

    at_step(step, spoil)


def test_a_number_that_is_not_finite_on_one_rank_ends_all_or_is_skipped_by_all(
    words: list[str], tmp_path: Path
) -> None:
    def prepare(rank: int) -> None:
        if rank == 1:  # which has learner 1 alone
            fail_in_training(2)

    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert all_failed(ended, 1)
    assert "of learner 1 is not finite in stage" in ended[0].said
    assert "the state after 2 steps is saved" in ended[0].said
    words[words.index("--out") + 1] = str(tmp_path / "skipped")
    ended = launch([*words, "--on-nonfinite", "skip"], tmp_path / "again", prepare=prepare)
    assert codes(ended) == [0, 0]
    assert "the batch of step 2 is skipped" in ended[0].said
    rows = (tmp_path / "skipped" / "metrics.jsonl").read_text().splitlines()
    assert ['"left_out": 1' in row for row in rows] == [False] * 3 + [True] * 3


@pytest.mark.slow  # ranks are started above, too
def test_an_image_that_one_rank_cannot_read_ends_all(words: list[str], tmp_path: Path) -> None:
    def prepare(rank: int) -> None:
        if rank == 1:
            batch = Reader.batch

            def failing(reader: Any, step: int) -> Any:
                if step == 1:
                    raise OSError("the disk of rank 1 is gone")
                return batch(reader, step)

            PATCH.setattr(Reader, "batch", failing)

    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert all_failed(ended, 1)
    assert "rank 1 of the group failed" in ended[0].said
    assert "the disk of rank 1 is gone" in ended[0].said
    assert durable(tmp_path / "run") == {".": 1}


@pytest.mark.parametrize(
    "what", ["config", *(pytest.param(what, marks=pytest.mark.slow) for what in ("version", "images"))]
)
def test_ranks_that_differ_are_refused_at_the_start(what: str, words: list[str], tmp_path: Path) -> None:
    lines = [words, [*words, "--seed", "7"] if what == "config" else words]

    def prepare(rank: int) -> None:
        if rank != 1:
            return
        if what == "version":
            current = environment.Environment.current
            other = staticmethod(lambda *arguments: replace(current(*arguments), torch="9.9"))
            PATCH.setattr(environment.Environment, "current", other)
        if what == "images":
            PATCH.setattr(SearchData, "digest", "another")

    ended = launch(lines, tmp_path / "ranks", prepare=prepare)
    expected = {
        "config": "all ranks must have the same command and config, but rank 0 and rank 1 differ",
        "version": "rank 1: it must compute as rank 0 does, but torch was",
        "images": "all ranks must have the same images, but rank 0 and rank 1 differ",
    }
    assert all_failed(ended, 2)
    assert expected[what] in ended[0].said
    assert [line[:6] for line in ended[0].said.splitlines() if "[c10d]" not in line] == ["error:"]
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.slow  # ranks are started above, too
def test_architectures_that_differ_at_the_end_of_an_epoch_end_all(words: list[str], tmp_path: Path) -> None:
    def prepare(rank: int) -> None:
        if rank == 1:
            decide = SearchJob.decide

            def deciding(job: SearchJob, *arguments: Any) -> bool:
                with torch.no_grad():
                    next(iter(job.searchers[0].learner.architecture.values())).view(-1)[0] += 1e-3
                return decide(job, *arguments)

            PATCH.setattr(SearchJob, "decide", deciding)

    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert all_failed(ended, 1)
    assert "architectures must be the same on all ranks" in ended[0].said


def test_mutual_learning_on_ranks_is_that_of_one_process(tmp_path: Path) -> None:
    warm_up()
    config = {"training": {**TRAINING["training"], "steps_per_epoch": 3}, "run": SMALL["run"], "data": SMALL["data"]}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    words = ["mutual", CELL, "--learners", "3", "--config", str(tmp_path / "config.yaml"), "--out"]
    assert main([*words, str(tmp_path / "alone")]) == 0
    ended = launch([*words, str(tmp_path / "run")], tmp_path / "ranks")
    assert codes(ended) == [0, 0], ended
    assert differences(tmp_path / "alone", tmp_path / "run") == []


def test_a_rank_ends_soon_if_torchrun_is_gone_before_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    for name, value in where.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(world, "CONNECT", timedelta(seconds=1))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1"):
        world._store(Launch(1, 2, 1, 2, 0))
    assert time.monotonic() - start < 60  # and not the five minutes of torch


def test_other_commands_are_refused_on_ranks(tmp_path: Path) -> None:
    ended = launch(["list", "methods"], tmp_path)
    assert all_failed(ended, 2)
    assert "torchrun launches search, run, train, mutual, but list was launched on 2 ranks" in ended[0].said


@pytest.fixture
def training(tmp_path: Path) -> list[str]:
    """A training whose batches have the same two parts on one rank and on two, so that gradients are the same."""
    own = {**TRAINING["training"], "steps_per_epoch": 2, "accumulate": 2}
    config = {"training": own, "run": SMALL["run"], "data": SMALL["data"]}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    return ["train", CELL, "--config", str(tmp_path / "config.yaml"), "--out"]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    (newest,) = list(folder.glob("checkpoints/*4/*.safetensors"))
    found = load_file(newest).items()
    return {name: tensor for name, tensor in found if tensor.is_floating_point() and "running" not in name}


def at_training_step(step: int, signal_: signal.Signals) -> None:
    """Send this rank a signal when a step of a training begins."""
    take = TrainingJob._take_step

    def taken(job: TrainingJob) -> None:
        if job.step == step:
            os.kill(os.getpid(), signal_)
        take(job)

    PATCH.setattr(TrainingJob, "_take_step", taken)


def test_a_training_on_ranks_ends_alike_and_goes_on_in_one_process_to_the_numbers_of_one(
    training: list[str], tmp_path: Path
) -> None:
    warm_up()
    assert main([*training, str(tmp_path / "alone")]) == 0

    def prepare(rank: int) -> None:
        if rank == 1:
            at_training_step(2, signal.SIGTERM)

    ended = launch([*training, str(tmp_path / "run")], tmp_path / "ranks", prepare=prepare)
    assert all_failed(ended, 128 + signal.SIGTERM)
    assert "ended by SIGTERM after step 3" in ended[0].said
    assert ended[1].out == ""
    record = json.loads((tmp_path / "run" / "checkpoints" / f"{3:012d}" / "record.json").read_text())
    assert record["run"]["environment"]["ranks"] == 2
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["environment"]["ranks"] == 2
    assert main([*training, str(tmp_path / "run"), "--resume"]) == 0
    ours, theirs = weights_of(tmp_path / "run"), weights_of(tmp_path / "alone")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) < 1e-6
    losses = [[row["loss"] for row in rows_of(tmp_path / name)] for name in ("run", "alone")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


@pytest.mark.slow  # ranks are started above, too
def test_the_training_of_a_run_and_its_test_are_shared_by_ranks_of_which_one_may_be_killed(
    training: list[str], tmp_path: Path
) -> None:
    words = [*training, str(tmp_path / "run")]

    def prepare(rank: int) -> None:
        if rank == 1:
            at_training_step(2, signal.SIGKILL)

    start = time.monotonic()
    ended = launch(words, tmp_path / "ranks", prepare=prepare)
    assert (ended[0].code, ended[1].code) == (1, -signal.SIGKILL)
    assert "has died" in ended[0].said
    assert "--resume continues from the newest one" in ended[0].said
    assert time.monotonic() - start < 120
    ended = launch([*words, "--resume"], tmp_path / "again", ranks=3)
    assert codes(ended) == [0, 0, 0]
    assert "batches were divided over 2 ranks and now over 3" in ended[0].said
    group = [*words[:-1], str(tmp_path / "two"), "--learners", "2", "--unlabeled", "train"]
    ended = launch([*group, "--set", "training.accumulate=1"], tmp_path / "group")
    assert all_failed(ended, 2)
    assert "torchrun divides the batches of one network over its ranks" in ended[0].said
    config = json.loads((tmp_path / "config.yaml").read_text()) | CONFIG
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    ended = launch(["run", "--config", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "whole")], tmp_path / "3")
    assert codes(ended) == [0, 0], ended
    made = yaml.safe_load((tmp_path / "whole" / "training" / "config.yaml").read_text())
    assert made["environment"]["ranks"] == 2
