import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.runner import Interrupted, Metrics, Watcher, read_rows
from smallgroup.runtime.environment import Environment
from tests.runner.jobs import Walk, interrupted, runner


def rows(folder: Path) -> list[dict[str, Any]]:
    return list(read_rows(folder / "metrics.jsonl"))


def test_a_job_runs_to_its_end_and_leaves_metrics_and_a_checkpoint(tmp_path: Path) -> None:
    job = Walk()
    seconds = runner(tmp_path).run(job)
    assert job.finished
    assert seconds > 0
    assert [row["epoch"] for row in rows(tmp_path)] == [0, 1, 2, 3]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["000000000019", "000000000020"]


@pytest.mark.parametrize("step", range(0, 20, 3))
def test_resumed_at_any_step_it_gives_the_same_bits(tmp_path: Path, step: int) -> None:
    whole, part = Walk(), Walk()
    runner(tmp_path / "whole").run(whole)
    part.fail_at = step
    with pytest.raises(FloatingPointError, match=f"step {step}"):
        runner(tmp_path / "part").run(part)
    again = Walk()
    runner(tmp_path / "part").run(again, resume=True)
    assert torch.equal(whole.x, again.x)
    assert torch.equal(whole.velocity, again.velocity)
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")


def test_a_job_is_closed_however_the_run_ends(tmp_path: Path) -> None:
    whole, failing, stopped = Walk(), Walk(), Walk()
    runner(tmp_path / "whole").run(whole)
    failing.fail_at = 3
    with pytest.raises(FloatingPointError):
        runner(tmp_path / "failing").run(failing)
    interrupted(stopped, tmp_path / "stopped", 4)
    assert whole.closed
    assert failing.closed
    assert stopped.closed


def test_a_job_that_forgets_something_is_noticed_by_this_comparison(tmp_path: Path) -> None:
    """The negative control of the test above."""
    whole, part = Walk(), Walk(forgets=True)
    runner(tmp_path / "whole").run(whole)
    part.fail_at = 7
    with pytest.raises(FloatingPointError):
        runner(tmp_path / "part").run(part)
    again = Walk(forgets=True)
    runner(tmp_path / "part").run(again, resume=True)
    assert not torch.equal(whole.x, again.x)


def test_metrics_written_after_the_checkpoint_are_written_once(tmp_path: Path) -> None:
    part = Walk()
    part.fail_at = 10
    with pytest.raises(FloatingPointError):
        runner(tmp_path).run(part)
    Metrics(tmp_path / "metrics.jsonl").append({"epoch": 99})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": ')
    runner(tmp_path).run(Walk(), resume=True)
    assert [row["epoch"] for row in rows(tmp_path)] == [0, 1, 2, 3]


def test_a_damaged_newest_checkpoint_costs_no_bit(tmp_path: Path) -> None:
    whole, part = Walk(), Walk()
    runner(tmp_path / "whole").run(whole)
    part.fail_at = 13
    with pytest.raises(FloatingPointError):
        runner(tmp_path / "part").run(part)
    newest = max((tmp_path / "part" / "checkpoints").iterdir())
    (newest / "tensors.safetensors").write_bytes(b"")
    seen = []

    class Witness(Watcher):
        def told(self, sentence: str) -> None:
            seen.append(sentence)

    again = Walk()
    runner(tmp_path / "part", watcher=Witness()).run(again, resume=True)
    assert len(seen) == 1
    assert "damaged" in seen[0]
    assert torch.equal(whole.x, again.x)
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    runner(tmp_path).run(Walk())
    before = (tmp_path / "metrics.jsonl").read_bytes()
    job = Walk()
    runner(tmp_path).run(job, resume=True)
    assert job.finished
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_folder_with_a_run_in_it_must_be_resumed(tmp_path: Path) -> None:
    runner(tmp_path).run(Walk())
    with pytest.raises(ValueError, match="must be empty or resumed"):
        runner(tmp_path).run(Walk())


def test_another_config_is_refused_by_name(tmp_path: Path) -> None:
    runner(tmp_path, identity={"search": {"lambda": 1.0, "epochs": 4}}).run(Walk())
    with pytest.raises(ValueError, match=r"search\.lambda was 1\.0 and is 2\.0"):
        runner(tmp_path, identity={"search": {"lambda": 2.0, "epochs": 4}}).run(Walk(), resume=True)
    with pytest.raises(ValueError, match=r"search\.epochs was 4 and is None"):
        runner(tmp_path, identity={"search": {"lambda": 1.0}}).run(Walk(), resume=True)


def test_another_environment_is_refused_unless_allowed(tmp_path: Path) -> None:
    runner(tmp_path).run(Walk())
    other = Environment("t", "c", 2, "k")
    with pytest.raises(ValueError, match=r"threads was 1 and is 2.*--allow-drift"):
        runner(tmp_path, environment=other).run(Walk(), resume=True)
    with pytest.warns(UserWarning, match="may differ from that of an uninterrupted run: threads was 1 and is 2"):
        runner(tmp_path, environment=other, allow_drift=True).run(Walk(), resume=True)


def test_the_environment_of_this_process_is_known() -> None:
    here = Environment.current("plain")
    assert here.torch == torch.__version__
    assert here.threads == torch.get_num_threads()
    assert here.cpu
    assert here.differences(here) == []


def start(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runner.jobs", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_second_process_in_the_folder_is_refused(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        time.sleep(0.1)
        with pytest.raises(ValueError, match=f"in use by process {process.pid}"):
            runner(tmp_path).run(Walk(), resume=True)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def granted_hangup() -> Iterator[None]:
    """SIGHUP with its usual effect, also where the tests themselves run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("granted_hangup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_end_it_saves_and_goes_on_later(tmp_path: Path, number: signal.Signals) -> None:
    job = Walk(seconds=0.01, epochs=100)
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=f"{number.name} after step"):
        runner(tmp_path, minutes=10.0).run(job)
    assert signal.getsignal(number) == before
    assert 0 < job.step < job.total
    newest = max((tmp_path / "checkpoints").iterdir())
    assert json.loads((newest / "record.json").read_text())["step"] == job.step


def test_rows_that_are_not_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\nno\n')
    with pytest.raises(ValueError, match=r"line 2 of .* must be JSON"):
        list(read_rows(path))
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match=r"line 1 .* must be an object"):
        list(read_rows(path))


def test_metrics_that_are_shorter_than_the_checkpoint_says_are_refused(tmp_path: Path) -> None:
    runner(tmp_path).run(Walk())
    os.truncate(tmp_path / "metrics.jsonl", 3)
    with pytest.raises(ValueError, match=r"must have the .* bytes that the checkpoint counts"):
        runner(tmp_path).run(Walk(), resume=True)


def test_a_signal_in_the_last_step_ends_what_would_follow(tmp_path: Path) -> None:
    """All is saved; but a search must not be followed by its training, or a seed by the next one."""
    walk = Walk()
    original = walk.advance

    def advance() -> Any:
        if walk.step == walk.total - 1:
            signal.raise_signal(signal.SIGINT)
        return original()

    walk.advance = advance  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=f"after step {walk.total}"):
        runner(tmp_path).run(walk)
    again = Walk()
    runner(tmp_path).run(again, resume=True)
    assert again.finished
    assert torch.equal(again.x, walk.x)


@pytest.mark.usefixtures("granted_hangup")
def test_a_terminal_that_goes_may_say_so_more_than_once(tmp_path: Path) -> None:
    """SIGHUP twice, and the SIGTERM of a session that ends: the run is saved; the first one counts."""
    walk = Walk()
    original = walk.advance

    def advance() -> Any:
        if walk.step == 3:
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
        return original()

    walk.advance = advance  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="SIGHUP after step 4") as ended:
        runner(tmp_path, minutes=10.0).run(walk)
    assert ended.value.exit_code == 129
    again = Walk()
    runner(tmp_path, minutes=10.0).run(again, resume=True)
    assert again.finished


def test_a_signal_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    class Hanging(Watcher):
        def stepped(self, step: int, seconds: float) -> None:  # noqa: ARG002
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        job = Walk()
        runner(tmp_path, watcher=Hanging(), minutes=10.0).run(job)
        assert job.finished
    finally:
        signal.signal(signal.SIGHUP, before)


class Failing(Watcher):
    """Raises an error whenever it is told of a step or an epoch from some step on."""

    def __init__(self, error: BaseException, after: int, *, epochs: bool = False) -> None:
        self.error, self.after, self.epochs = error, after, epochs
        self.heard = 0

    def stepped(self, step: int, seconds: float) -> None:  # noqa: ARG002
        self.heard = step
        if step >= self.after and not self.epochs:
            raise self.error

    def ended_epoch(self, rows: Any) -> None:  # noqa: ARG002
        if self.heard >= self.after:
            raise self.error


@pytest.mark.parametrize("who", ["watcher", "recorders"])
@pytest.mark.parametrize("epochs", [False, True])
def test_a_display_that_cannot_write_ends_once_and_the_run_goes_on(tmp_path: Path, who: str, epochs: bool) -> None:
    display, job = Failing(OSError(5, "Input/output error"), 5, epochs=epochs), Walk()
    given = display if who == "watcher" else [display]
    with pytest.warns(UserWarning, match="the run continues without Failing, which failed: .*Input/output") as said:
        runner(tmp_path, minutes=10.0, **{who: given}).run(job)
    assert len(said) == 1
    assert display.heard == 5
    assert job.finished
    assert [row["epoch"] for row in rows(tmp_path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
@pytest.mark.parametrize("epochs", [False, True])
def test_whatever_ends_a_run_between_steps_the_state_is_saved(
    tmp_path: Path, kind: type[BaseException], epochs: bool
) -> None:
    """Rows of the epoch included, where the step was the last of one."""
    whole, job = Walk(), Walk()
    runner(tmp_path / "whole", minutes=10.0).run(whole)
    with pytest.raises(kind) as raised:
        runner(tmp_path / "part", watcher=Failing(kind("no"), 10, epochs=epochs), minutes=10.0).run(job)
    assert raised.value.__notes__ == ["the state after 10 steps is saved, and --resume continues from it"]
    again = Walk()
    runner(tmp_path / "part", minutes=10.0).run(again, resume=True)
    assert torch.equal(whole.x, again.x)
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")


def test_epochs_that_are_shorter_than_that_are_not_all_saved(tmp_path: Path) -> None:
    """The first and the last are; a run that is interrupted in between is saved as well."""

    class Saved(Watcher):
        def __init__(self) -> None:
            self.steps: list[int] = []

        def saved(self, step: int) -> None:
            self.steps.append(step)

    for least, expected in ((0.0, [5, 10, 15, 20]), (60.0, [5, 20])):
        seen = Saved()
        runner(tmp_path / f"{least}", minutes=10.0, least_seconds=least, recorders=[seen]).run(Walk(epochs=4, steps=5))
        assert seen.steps == expected
