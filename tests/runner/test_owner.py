"""Locks on network file systems: an owner file with signs of life, beside `flock`."""

import errno
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from smallgroup.runner import owner
from smallgroup.runner.lock import InUseError, LostLockError, held, locked
from tests.runner.jobs import Walk, runner
from tests.runner.two_hosts import can_be_two, start

TWO_HOSTS = pytest.mark.skipif(not can_be_two(), reason="this machine lets no user make namespaces")
HOLD = """
import sys
from pathlib import Path
from smallgroup.runner import owner
from smallgroup.runner.lock import locked
owner.BEAT, owner.STALE = 0.2, 1.5
try:
    with locked(Path(sys.argv[1])):
        print("has it", flush=True)
        sys.stdin.readline()
except ValueError as error:
    print(error)
"""
ELSEWHERE = {"host": "beta", "system": "another", "pid": 7, "began": "1", "token": "t"}


def tried(host: str, folder: Path) -> str:
    """What a process on a host says that takes the folder and lets go of it."""
    said, _ = start(host, folder, HOLD).communicate("\n", timeout=60)
    return said


@TWO_HOSTS
def test_two_hosts_take_turns_and_a_dead_owner_is_followed_when_it_is_stale(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    first = start("alpha", folder, HOLD)
    assert first.stdout is not None
    assert first.stdout.readline() == "has it\n"
    time.sleep(1.7)  # longer than a dead owner is waited for
    assert "is in use by process 1 on host alpha, last seen 0 seconds ago; after 2 it counts as dead" in tried(
        "beta", folder
    )
    first.communicate("\n", timeout=60)
    assert tried("beta", folder) == "has it\n"  # at once
    second = start("alpha", folder, HOLD)
    assert second.stdout is not None
    assert second.stdout.readline() == "has it\n"
    second.kill()  # and with it all processes of its host
    second.communicate(timeout=60)
    last = (folder / ".owner").stat().st_mtime  # its last sign of life, which is old where the machine is busy
    while tried("beta", folder) != "has it\n":
        assert time.time() - last < 60
    assert time.time() - last > 1.5
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_an_owner_elsewhere_keeps_out_until_it_is_stale(tmp_path: Path) -> None:
    with locked(tmp_path):
        mine = json.loads((tmp_path / ".owner").read_text())
        assert mine["pid"] == os.getpid()
    assert not (tmp_path / ".owner").exists()
    (tmp_path / ".owner").write_text(json.dumps(ELSEWHERE))
    assert held(tmp_path)
    with pytest.raises(InUseError, match="process 7 on host beta, last seen 0 seconds ago"), locked(tmp_path):
        pass
    for seconds in (-1.1, 1.1):  # a time in the future is no sign of life
        (tmp_path / ".owner").write_text(json.dumps(ELSEWHERE))
        os.utime(tmp_path / ".owner", (then := time.time() + seconds * owner.STALE, then))
        assert not held(tmp_path)
        with locked(tmp_path):
            assert held(tmp_path)
            assert json.loads((tmp_path / ".owner").read_text())["system"] == mine["system"]


@pytest.mark.parametrize("text", ["", "[", '{"pid": "1"}', json.dumps({**ELSEWHERE, "pid": -1}), "[" * 4_000])
def test_an_owner_file_that_says_nothing_is_judged_by_its_age(text: str, tmp_path: Path) -> None:
    (tmp_path / ".owner").write_text(text)
    with pytest.raises(InUseError, match="a process, last seen"), locked(tmp_path):
        pass
    os.utime(tmp_path / ".owner", (0, 0))
    with locked(tmp_path):
        pass


def test_where_there_is_no_flock_processes_of_a_host_keep_one_another_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    child = os.fork()
    if not child:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    try:
        assert held(tmp_path)
        with pytest.raises(InUseError, match=f"in use by process {child}$"), locked(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not held(tmp_path)  # at once: that it is dead can be seen
    with locked(tmp_path), pytest.raises(InUseError, match=f"in use by process {os.getpid()}$"), locked(tmp_path):
        pass


def test_who_has_moved_a_new_owner_file_puts_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes find a dead owner; one of them is faster, and the other finds out after it has moved its file."""
    path = tmp_path / ".owner"
    path.write_text(json.dumps(ELSEWHERE))
    faster = json.dumps({**ELSEWHERE, "token": "faster"})
    looks = owner.read

    def slow(at: Path) -> owner.Owner | None:
        found = looks(at)
        if at == path and found is not None and found.token == "t":
            os.utime(path, (0, 0))
            monkeypatch.setattr(owner, "read", looks)
            keeps_out = owner._keeps_out
            monkeypatch.setattr(owner, "_keeps_out", lambda *a, **k: (keeps_out(*a, **k), path.write_text(faster))[0])
            return found
        return found

    monkeypatch.setattr(owner, "read", slow)
    with pytest.raises(InUseError, match="host beta"), locked(tmp_path):
        pass
    assert path.read_text() == faster
    assert sorted(each.name for each in tmp_path.iterdir()) == [".lock", ".owner"]


class Suspended(Walk):
    """Before the last step of the first epoch the machine sleeps, and another process takes the folder over."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder, self.monkeypatch = folder, monkeypatch

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        if self.step == 4:
            clock = owner._clock
            self.monkeypatch.setattr(owner, "_clock", lambda: clock() + owner.STALE)
            (self.folder / ".owner").write_text(json.dumps(ELSEWHERE))
        return super().advance()


def test_a_run_that_was_taken_over_ends_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LostLockError, match="taken over by another one"):
        runner(tmp_path).run(Suspended(tmp_path, monkeypatch))
    assert int(max(path.name for path in (tmp_path / "checkpoints").glob("0*"))) == 4
    assert not (tmp_path / "metrics.jsonl").exists()  # the row of the epoch
    assert json.loads((tmp_path / ".owner").read_text()) == ELSEWHERE  # it is the other one's


def test_a_machine_that_sleeps_and_is_not_replaced_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(tmp_path) as mine:
        clock = owner._clock
        monkeypatch.setattr(owner, "_clock", lambda: clock() + 10 * owner.STALE)
        os.utime(tmp_path / ".owner", (0, 0))
        mine.check()
        assert time.time() - (tmp_path / ".owner").stat().st_mtime < 5  # seen again
