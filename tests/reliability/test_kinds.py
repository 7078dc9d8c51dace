"""Something else in the place of a file of a run: it is not written to, not waited for, and not read without end."""

import errno
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import save

from smallgroup.cli import main
from smallgroup.cli.wanted import Wanted
from smallgroup.config import LARGEST, load, load_own
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training.mutual_result import MutualResult
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.result import TrainResult
from smallgroup.runner.lock import held, locked
from smallgroup.runner.metrics import LONGEST_LINE, Metrics, read_rows
from smallgroup.runtime.files import NotRegularError, bring_to_disk, open_regular, read_regular
from smallgroup.runtime.memory import memory_in_use
from smallgroup.runtime.tensor_files import read_tensors
from tests.reliability.runs import Captured, copied, refused

PRECIOUS = b"the only copy\n"
HUGE = 20 * 2**30


def huge(path: Path) -> None:
    """As large as a file can be that takes no room."""
    path.touch()
    os.truncate(path, HUGE)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, precious: path.symlink_to(precious),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a folder": lambda path, _: path.mkdir(),
    "a link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "a huge file": lambda path, _: huge(path),
}


@contextmanager
def no_hang(seconds: float = 20) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A file of the user's, that nobody may change."""
    path = tmp_path / "precious.txt"
    path.write_bytes(PRECIOUS)
    yield path
    assert path.read_bytes() == PRECIOUS


def put(kind: str, path: Path, precious: Path) -> None:
    path.unlink(missing_ok=True)
    KINDS[kind](path, precious)


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_a_run_can_do_without(
    kind: str, finished: Path, tmp_path: Path, precious: Path, capsys: Captured
) -> None:
    run = copied(finished, tmp_path / "run")
    for name in ("facts.json", "times.jsonl", "gallery.json", "architectures.json", "genotype.json", "result.json"):
        put(kind, run / name, precious)
    before = memory_in_use()
    with no_hang():
        assert main(["show", str(run)]) == 0
        assert "facts.json cannot be used" in capsys.readouterr().out
        code, said = main(["search", "--out", str(run), "--resume"]), capsys.readouterr().err
    assert "Traceback" not in said
    if kind == "a folder":  # which is not replaced by a file
        assert (code, said.splitlines()[-1][:6]) == (2, "error:")
    else:
        assert code == 0
        assert (run / "result.json").read_bytes()[:1] == b"{"
    assert memory_in_use() - before < 200 * 2**20


NEEDED = (".lock", "config.yaml", "metrics.jsonl")


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_a_run_needs(kind: str, finished: Path, tmp_path: Path, precious: Path, capsys: Captured) -> None:
    for name in NEEDED:
        run = copied(finished, tmp_path / name)
        put(kind, run / name, precious)
        with no_hang():
            assert main(["show", str(run)]) == 0
            if kind == "a huge file" and name != "config.yaml":  # what comes after a checkpoint is cut off
                assert main(["search", "--out", str(run), "--resume"]) == 0
                assert (run / name).stat().st_size < 100_000
            else:
                rule = "have at most" if kind == "a huge file" else "be a regular file"
                assert f"{name} must {rule}" in refused(capsys, "search", "--out", str(run), "--resume")


@pytest.mark.parametrize("kind", [*KINDS, "nothing"])
def test_every_reader_of_a_run_by_itself(kind: str, tmp_path: Path, precious: Path) -> None:
    path = tmp_path / "result.json"
    if kind != "nothing":
        put(kind, path, precious)
    for name in ("peers.json", ".lock", ".owner", "model.safetensors"):
        if kind != "nothing":
            put(kind, tmp_path / name, precious)
    with no_hang():
        for result in (SearchResult, TrainResult, MutualResult):
            assert result.read(tmp_path) is None
        assert held(tmp_path) == (kind == "a huge file")  # a new owner file counts, whatever it says
        for read in (lambda: Peers.read(tmp_path), lambda: read_regular(path), lambda: load_own(path)):
            with pytest.raises((ValueError, FileNotFoundError)):
                read()
        with pytest.raises((ValueError, FileNotFoundError)):
            read_tensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("kind", list(KINDS)[:4])
def test_nothing_but_a_file_is_opened_to_write(kind: str, tmp_path: Path, precious: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    put(kind, path, precious)
    metrics = Metrics(path)
    for write in (lambda: metrics.append({"epoch": 0}), lambda: metrics.cut(0), lambda: open_regular(path, "ab+")):
        with no_hang(), pytest.raises(NotRegularError, match=f"must be a regular file, but it is {kind[:6]}"):
            write()


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "new")
    with pytest.raises(NotRegularError, match="it is a link"):
        Metrics(tmp_path / "metrics.jsonl").append({"epoch": 0})
    assert not (tmp_path / "new").exists()


def test_the_folder_of_a_run_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    Metrics(tmp_path / "run" / "metrics.jsonl").append({"epoch": 0})
    assert list(read_rows(tmp_path / "real" / "metrics.jsonl")) == [{"epoch": 0}]


@pytest.mark.parametrize("name", ["training", "random", "alone", "checkpoints"])
def test_a_folder_inside_a_run_may_not_be_a_link(name: str, finished: Path, tmp_path: Path, capsys: Captured) -> None:
    """It would lead writing and removing elsewhere."""
    run, elsewhere = copied(finished, tmp_path / "run"), tmp_path / "elsewhere"
    shutil.move(run / "checkpoints", elsewhere)
    before = sorted(elsewhere.rglob("*"))
    (run / name).symlink_to(elsewhere)
    of_search, of_part = ["search", "--out", str(run), "--resume"], ["train", str(run), "--out", str(run / name)]
    said = refused(capsys, *(of_search if name == "checkpoints" else of_part))
    assert f"{run / name} must be a folder of the run itself, but it is a link" in said
    assert sorted(elsewhere.rglob("*")) == before


def test_a_file_has_at_most_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(ValueError, match="must have at most 4 bytes, but it has 5"):
        read_regular(path, 4)


def test_a_line_of_metrics_without_end_is_refused(tmp_path: Path) -> None:
    huge(tmp_path / "metrics.jsonl")
    before = memory_in_use()
    with pytest.raises(ValueError, match=f"line 1 of .* less than {LONGEST_LINE:,} bytes"):
        list(read_rows(tmp_path / "metrics.jsonl"))
    assert memory_in_use() - before < 4 * LONGEST_LINE


def test_a_config_that_the_user_names_may_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"seed: 3\n"))
    writer.start()
    with no_hang():
        assert load(pipe) == {"seed": 3}
    writer.join()
    with no_hang(), pytest.raises(ValueError, match=f"at most {LARGEST:,} bytes"):
        load(Path("/dev/zero"))


@pytest.mark.parametrize("longer", [-1, 1, HUGE])
def test_tensors_are_as_long_as_their_header_says(longer: int, tmp_path: Path) -> None:
    path = tmp_path / "tensors.safetensors"
    path.write_bytes(content := save({}, {"a": "b"}))
    assert read_tensors(path) == content
    os.truncate(path, len(content) + longer)
    with no_hang(), pytest.raises(ValueError, match=r"must (have the|begin with a header)"):
        read_tensors(path)


def test_a_pipe_is_read_once_however_often_its_keys_are_asked_for(tmp_path: Path) -> None:
    """As with several seeds, or a search and its training."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"search: {epochs: 3}\n"))
    writer.start()
    wanted = Wanted(
        config=pipe, options={}, changes=[], seeds=None, out=None, time_budget=None, resume=False, allow_drift=False
    )
    with no_hang():
        assert [wanted.given() for _ in range(2)] == [{"search": {"epochs": 3}}] * 2
    writer.join()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_file_systems_without_locks_are_worked_on(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(tmp_path):
        assert held(tmp_path)
    assert not held(tmp_path)


def test_no_room_for_the_lock_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.write", write)
    with pytest.raises(OSError, match=r"No space left") as caught, locked(tmp_path):
        pass
    assert str(caught.value.filename).endswith(".lock") or ".lock" in str(caught.value)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_folders_that_cannot_be_brought_to_the_disk(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems do so for files alone."""

    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fsync)
    bring_to_disk(tmp_path)
