"""A disk that is full or may not be written to: one line, nothing lost, and the run goes on when there is room."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from smallgroup.cli import main
from tests.reliability.runs import SEARCH, Captured, copied, refused, resumed, same


def run_limited(bytes_: int, out: Path) -> tuple[int, str]:
    """The search in a process that may write no file of more than so many bytes: its code, and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 99
        try:
            sys.stderr = os.fdopen(writing, "w")
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
            code = main([*SEARCH, "--out", str(out), "--resume"])
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def test_no_room_for_a_file(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    """For none, for the metrics alone, for all but the tensors; the same run goes on with ever more room."""
    largest = max(path.stat().st_size for path in finished.rglob("*.safetensors"))
    out = tmp_path / "run"
    for room in (0, 1_000, largest // 2, largest - 1):
        code, said = run_limited(room, out)
        last = said.splitlines()[-1]
        assert code == 1, said
        assert last.startswith("error: ")
        assert "File too large" in last
        assert "Traceback" not in said
        assert not list((out / "checkpoints").glob(".*"))
    assert f"{out}/checkpoints" in last
    assert "no checkpoint could be written" in last or "--resume then continues from the newest checkpoint" in last
    resumed(out, capsys)
    assert same(finished, out)


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of this size, where one may be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here: a full disk was tried by a limit of file sizes alone")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_full(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    whole = sum(path.stat().st_size for path in finished.rglob("*") if path.is_file())
    with small_disk(tmp_path / "disk", 4 * whole // 1024) as disk:
        out, ballast = disk / "run", disk / "ballast"
        for room in (20_000, whole // 2):
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            ballast.write_bytes(b"\0" * (free - room))
            said = refused(capsys, *SEARCH, "--out", str(out), "--resume", code=1)
            assert "No space left on device" in said
            ballast.unlink()
        assert list((out / "checkpoints").iterdir())
        resumed(out, capsys)
        assert same(finished, out)


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Without the rights of an administrator, who may write everywhere; the folder may be read and not written."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    above, user = [], os.geteuid()
    if not user:
        above = [path for path in folder.parents if path.is_relative_to("/tmp") and path != Path("/tmp")]
        modes = [path.stat().st_mode for path in above]
        for path in above:
            path.chmod(0o755)
        os.seteuid(65534)
    try:
        yield
    finally:
        if not user:
            os.seteuid(user)
            for path, mode in zip(above, modes, strict=True):
                path.chmod(mode)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_folder_that_may_only_be_read(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = copied(finished, tmp_path / "run")
    with as_nobody(run):
        said = refused(capsys, "search", "--out", str(run), "--resume")
        new = refused(capsys, *SEARCH, "--out", str(run / "new"))
    assert "Permission denied" in said
    assert str(run) in said
    assert "Permission denied" in new
    resumed(run, capsys)
    assert same(finished, run)
