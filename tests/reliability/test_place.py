"""A run may be moved, and resumed from anywhere; what would change its bits is restored, or refused with the reason."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from smallgroup.cli import main
from tests.reliability.runs import Captured, copied, refused, resumed, same
from tests.tools.chaos.subjects import draw_images


def begun(finished: Path, place: Path) -> Path:
    """A run that was stopped after its fifth step."""
    run = copied(finished, place)
    shutil.rmtree(max((run / "checkpoints").iterdir()))
    return run


def test_a_run_that_was_moved_and_renamed_goes_on(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = begun(finished, tmp_path / "run")
    moved = tmp_path / "elsewhere" / "an odd näme\n"
    moved.parent.mkdir()
    run.rename(moved)
    assert "resumed after step 5" in resumed(moved, capsys)
    assert same(finished, moved)


def test_a_run_is_resumed_from_another_working_directory(
    finished: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(finished, tmp_path / "a" / "run")
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    resumed(Path("../a/run"), capsys)
    assert same(finished, tmp_path / "a" / "run")


def test_images_named_by_a_path_that_leads_nowhere_now_are_refused(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_images(tmp_path / "a" / "images", 30)
    monkeypatch.chdir(tmp_path / "a")
    small = ["--set=space.channels=2", "--set=search.epochs=1", "--set=search.steps_per_epoch=2", "--learners=1"]
    small += ["--set=data.size=8", "--set=search.batch_size={train: 4, unlabeled: 4, validation: 4}"]
    arguments = ["search", "--dataset=folder:images", "--data-root=nowhere", "--hypergradient=first-order", *small]
    assert main([*arguments, "--out=run"]) == 0
    (tmp_path / "a" / "run" / "result.json").unlink()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    assert "images does not exist" in refused(capsys, "search", "--out=../a/run", "--resume")
    monkeypatch.chdir(tmp_path / "a")
    resumed(Path("run"), capsys)


def test_a_machine_that_rounds_differently_is_refused_unless_allowed(
    finished: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch without oneDNN, as another value of a variable would make it; name and version are the same."""
    run = begun(finished, tmp_path / "run")
    monkeypatch.setenv("MKL_CBWR", "AVX2")  # changes nothing now, and is named
    torch._C._set_mkldnn_enabled(False)
    try:
        said = refused(capsys, "search", "--out", str(run), "--resume")
        assert re.search("but these computations round differently: .*stem, ", said)
        assert "also MKL_CBWR was not set and is 'AVX2'" in said
        said = resumed(run, capsys, "--allow-drift")
        assert "the result may differ from that of an uninterrupted run: these computations round" in said
    finally:
        torch._C._set_mkldnn_enabled(True)


def test_a_variable_that_changes_no_bits_is_no_reason_to_refuse(
    finished: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(finished, tmp_path / "run")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert "MKL_CBWR" not in resumed(run, capsys)
    assert same(finished, run)


def test_the_number_of_threads_is_restored_or_refused(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = begun(finished, tmp_path / "run")
    said = refused(capsys, "search", "--out", str(run), "--resume", "--set=run.threads=2")
    assert "run.threads was 1 and is 2" in said
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as a machine with other variables would
    try:
        resumed(run, capsys)
    finally:
        torch.set_num_threads(before)
    assert same(finished, run)
