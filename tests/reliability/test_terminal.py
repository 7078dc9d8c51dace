"""A terminal, a pipe or a log that is lost costs what would have been shown, and nothing of the run."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from smallgroup.cli import main
from tests.reliability.runs import SEARCH, Captured, resumed, same


def in_process_of_its_own(arguments: list[str], prepare: Callable[[], object]) -> int:
    """Run a command in a copy of this process, whose streams `prepare` may change; its process number."""
    child = os.fork()
    if not child:
        run_and_exit(arguments, prepare)
    return child


def run_and_exit(arguments: list[str], prepare: Callable[[], object]) -> None:
    """In the copy: with the streams that a new interpreter would have."""
    code = 99
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        prepare()
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        code = main(arguments)
    finally:
        os._exit(code)


def code_of(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_the_reader_of_everything_leaves(finished: Path, tmp_path: Path) -> None:
    """As with `2>&1 | head -1`: the run goes to its end, and the code says that its result was not printed."""
    reading, writing = os.pipe()

    def prepare() -> None:
        for number in (1, 2):
            os.dup2(writing, number)
        os.close(reading)

    process = in_process_of_its_own([*SEARCH, "--out", str(tmp_path / "run")], prepare)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.readline()
    assert code_of(process) == 1
    assert same(finished, tmp_path / "run")


def test_a_log_on_a_full_disk(finished: Path, tmp_path: Path) -> None:
    def prepare() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
        os.dup2(os.open(tmp_path / "result", os.O_WRONLY | os.O_CREAT), 1)

    assert code_of(in_process_of_its_own([*SEARCH, "--out", str(tmp_path / "run")], prepare)) == 0
    assert "everything is in" in (tmp_path / "result").read_text()
    assert same(finished, tmp_path / "run")


def test_a_terminal_that_is_closed(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    """The system sends SIGHUP and takes nothing more: the run saves, ends with 129, and can be resumed."""
    out = tmp_path / "run"
    process, terminal = pty.fork()
    if not process:
        run_and_exit([*SEARCH, "--out", str(out)], lambda: None)
    while not list((out / "checkpoints").glob("[0-9]*")):
        assert os.read(terminal, 4096)
        time.sleep(0.001)
    os.close(terminal)
    assert code_of(process) == 129
    assert not (out / "result.json").exists()
    assert "resumed after step" in resumed(out, capsys)
    assert same(finished, out)


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">/dev/full", 1, "error: standard output: No space left on device\n"),
        (">&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        ("--nonsense 2>/dev/full", 2, ""),
    ],
)
def test_an_interpreter_ends_well_without_its_streams(redirected: str, code: int, said: str) -> None:
    """To its very end: what is left in a stream must not change the exit code, or be complained about."""
    command = f'exec "$0" -m smallgroup --version {redirected}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)
