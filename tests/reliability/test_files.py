"""Checkpoints and metrics that are damaged, foreign or forged: the newest sound state is used, or it is refused."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from smallgroup.cli import main
from smallgroup.runtime.checkpoints import Checkpoints
from tests.reliability.runs import SEARCH, Captured, Damage, copied, refused, resumed, same


def flip(path: Path, place: int = -3) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def flip_a_number(path: Path) -> None:
    """The lowest bit of a weight: still a sound file of tensors, that nothing but its checksum tells from the other."""
    tensors = load(path.read_bytes())
    name = next(name for name in sorted(tensors) if name.startswith("0.w.") and tensors[name].dtype == torch.float32)
    tensors[name].view(torch.int32).view(-1)[0] ^= 1
    path.write_bytes(save(tensors))


def gone(path: Path) -> Path:
    path.unlink()
    return path


def linked(path: Path) -> None:
    """What a link leads to may change, and is of no folder that is moved."""
    content = path.read_bytes()
    (other := path.parent.parent / "elsewhere").write_bytes(content)
    gone(path).symlink_to(other)


DAMAGES: dict[str, Damage] = {
    "a file is gone": lambda place: gone(place / "learner-0.safetensors"),
    "the manifest is gone": lambda place: gone(place / "manifest.json"),
    "a file was cut": lambda place: os.truncate(place / "learner-0.safetensors", 99),
    "a bit was flipped": lambda place: flip(place / "record.json"),
    "a bit of a number was flipped": lambda place: flip_a_number(place / "learner-0.safetensors"),
    "a pipe in place of a file": lambda place: os.mkfifo(gone(place / "record.json")),
    "a huge record": lambda place: os.truncate(place / "record.json", 20 * 2**30),
    "a huge manifest": lambda place: os.truncate(place / "manifest.json", 20 * 2**30),
    "huge tensors": lambda place: os.truncate(place / "learner-0.safetensors", 20 * 2**30),
    "a link in place of a file": lambda place: linked(place / "learner-0.safetensors"),
    "a device in place of a file": lambda place: gone(place / "manifest.json").symlink_to("/dev/zero"),
    "a later version": lambda place: (place / "manifest.json").write_text('{"schema": 3, "sha256": {}}'),
}
"""Of the folder of a checkpoint."""


@pytest.mark.parametrize("name", DAMAGES)
def test_the_newest_sound_checkpoint_is_used_or_none(
    name: str, finished: Path, tmp_path: Path, capsys: Captured
) -> None:
    run = copied(finished, tmp_path / "run")
    older, newest = sorted((run / "checkpoints").iterdir())
    DAMAGES[name](newest)
    whole = shutil.copytree(run, tmp_path / "other", symlinks=True, ignore=shutil.ignore_patterns("0*6"))
    said = resumed(run, capsys)
    assert f"checkpoint {newest} is damaged and was skipped" in said
    assert "resumed after step 5" in said
    assert same(finished, run)
    DAMAGES[name](whole / "checkpoints" / older.name)
    before = (whole / "metrics.jsonl").read_bytes()
    assert "one of the checkpoints in" in refused(capsys, "search", "--out", str(whole), "--resume")
    assert (whole / "metrics.jsonl").read_bytes() == before


def test_a_folder_of_a_strange_name_is_no_checkpoint(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = copied(finished, tmp_path / "run")
    older, _ = sorted((run / "checkpoints").iterdir())
    shutil.rmtree(max((run / "checkpoints").iterdir()))
    shutil.copytree(older, run / "checkpoints" / "9²")  # a digit to some, but no number
    assert "resumed after step 5" in resumed(run, capsys)


def forge(run: Path, change: Any) -> None:
    """Write the newest checkpoint again, changed and with checksums that are right."""
    checkpoints = Checkpoints(run / "checkpoints")
    found = checkpoints.newest()
    assert found is not None
    tensors, record = dict(found.tensors), json.loads(json.dumps(found.record))
    change(tensors, record)
    checkpoints.save(found.step, tensors, record)


def without(name: str) -> Any:
    def change(tensors: dict[str, Tensor], _: Mapping[str, Any]) -> None:
        del tensors[next(key for key in sorted(tensors) if name in key and "/" not in key)]

    return change


def reshaped(tensors: dict[str, Tensor], _: Mapping[str, Any]) -> None:
    name = next(key for key in tensors if key.startswith("0.w.") and tensors[key].ndim == 4)
    tensors[name] = tensors[name][:1, :1, :1, :1].contiguous()  # which would be spread over the whole


def retyped(tensors: dict[str, Tensor], _: Mapping[str, Any]) -> None:
    name = next(key for key in sorted(tensors) if key.startswith("0.w."))
    tensors[name] = tensors[name].to(torch.float64)


def recorded(*path: str, value: Any) -> Any:
    def change(_: Any, record: dict[str, Any]) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


def at_another_step(_: Any, record: dict[str, Any]) -> None:
    record["job"]["step"] = 4


FORGED: dict[str, tuple[Any, str]] = {
    "a tensor is missing": (without("0.w."), "must hold every weight of"),
    "a tensor of another shape": (reshaped, r"must be \[.*, but it is \[1, 1, 1, 1\]"),
    "a tensor of another kind": (retyped, "but it is .* of torch.float64"),
    "no part of the run": (recorded("run", value=None), "must be one of a run"),
    "a length below zero": (recorded("run", "metrics", value=-1), "must be one of a run"),
    "a length beyond the file": (recorded("run", "metrics", value=10**9), "must have the 1,000,000,000 bytes"),
    "no time": (recorded("run", "seconds", value="x"), "must be one of a run"),
    "another environment": (recorded("run", "environment", "torch", value="1.0"), "torch was '1.0' and is"),
    "other rounding": (
        recorded("run", "environment", "canary", "stem", value="0"),
        "these computations round differently: stem .--allow-drift",
    ),
    "another Pillow": (recorded("run", "environment", "versions", "Pillow", value="1.0"), "Pillow was '1.0' and is"),
    "another smallgroup": (recorded("run", "environment", "versions", "smallgroup", value="9"), "smallgroup was '9'"),
    "hashes of another kind": (recorded("run", "environment", "canary", value=[1]), "must be one of a run"),
    "another device": (recorded("run", "environment", "device", value="cuda:0"), "device was 'cuda:0' and is 'cpu'"),
    "strange environment": (recorded("run", "environment", value={"gpu": 1}), "must be one of a run"),
    "another config": (recorded("run", "identity", "seed", value=7), "seed was 7 and is 0"),
    "identity of another kind": (recorded("run", "identity", value=[1]), "must be one of a run"),
    "other images": (recorded("job", "data", value="x"), "on the images it started with"),
    "no learners": (recorded("job", "ended", value=[]), "must fit the run"),
    "metrics of another kind": (recorded("job", "metrics", value=3), "must fit the run"),
    "a job at another step": (at_another_step, "must be of step 6, but its job is at step 4"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_checkpoint_that_does_not_fit_is_refused_in_a_line(
    name: str, finished: Path, tmp_path: Path, capsys: Captured
) -> None:
    run = copied(finished, tmp_path / "run")
    change, said = FORGED[name]
    forge(run, change)
    before = (run / "metrics.jsonl").read_bytes()
    assert re.search(said, line := refused(capsys, "search", "--out", str(run), "--resume")), line
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_checkpoint_of_another_device_is_taken_up_if_that_is_wanted(
    finished: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Its tensors are read to the processor's memory wherever they were."""
    run = copied(finished, tmp_path / "run")
    shutil.rmtree(max((run / "checkpoints").iterdir()))
    forge(run, recorded("run", "environment", "device", value="cuda:0"))
    assert "(--allow-drift resumes anyway)" in refused(capsys, "search", "--out", str(run), "--resume")
    assert "resumed after step 5" in resumed(run, capsys, "--allow-drift")
    assert same(finished, run)


def test_a_checkpoint_that_says_no_device_is_of_the_cpu(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    """As those of earlier versions."""
    run = copied(finished, tmp_path / "run")
    forge(run, lambda _, record: record["run"]["environment"].pop("device"))
    assert "resumed after step 6" in resumed(run, capsys)


def test_a_checkpoint_without_a_canary_is_resumed_with_a_warning(
    finished: Path, tmp_path: Path, capsys: Captured
) -> None:
    """As those of earlier versions."""
    run = copied(finished, tmp_path / "run")
    shutil.rmtree(max((run / "checkpoints").iterdir()))

    def forget(_: Any, record: dict[str, Any]) -> None:
        for name in ("canary", "versions", "variables"):
            del record["run"]["environment"][name]

    forge(run, forget)
    said = resumed(run, capsys)
    assert "resumed after step 5" in said
    assert "it is not known whether this machine rounds as before" in said
    assert same(finished, run)


def test_the_checkpoints_of_another_run_are_refused(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other"
    assert main([*SEARCH, "--seed=5", "--out", str(other)]) == 0
    run = copied(finished, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    assert "seed was 5 and is 0" in refused(capsys, "search", "--out", str(run), "--resume")


def test_metrics_that_were_changed_are_told_of(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = copied(finished, tmp_path / "run")
    flip(run / "metrics.jsonl", 12)
    assert "metrics.jsonl was changed after it was written" in resumed(run, capsys)


def test_a_torn_last_line_of_metrics_is_cut_off(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = copied(finished, tmp_path / "run")
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"epoch": 2, "w_lo')
    assert "changed" not in resumed(run, capsys)
    assert same(finished, run)


def test_killed_before_its_report_a_finished_run_draws_it(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "report.html").rename(run / ".smallgroup-unfinished-0123456789abcdef")
    assert "is finished" in resumed(run, capsys)
    assert same(finished, run)


def test_what_a_killed_process_left_of_a_file_is_removed(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    run = copied(finished, tmp_path / "run")
    left = run / ".smallgroup-unfinished-0123456789abcdef"
    left.write_text("{")
    mine = [".bashrc.20240101", ".result.json.0123abcd", f"{left.name}.txt", left.name[:-1]]
    for name in mine:
        (run / name).write_text("x")
    (link := left.with_name(left.name.replace("0", "f"))).symlink_to(run / mine[0])
    resumed(run, capsys)
    assert not left.exists()
    assert all((run / name).exists() for name in mine)
    assert link.is_symlink()
