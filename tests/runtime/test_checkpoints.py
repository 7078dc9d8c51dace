import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from smallgroup.runtime.checkpoints import MANIFEST, RECORD, TENSORS, Checkpoints
from tests.tools.chaos.attack import Attack, die_within


def tensors(value: float) -> dict[str, torch.Tensor]:
    image = torch.full((2, 3, 4, 5), value).contiguous(memory_format=torch.channels_last)
    return {"a.b": image, "mask": torch.tensor([True, False]), "c": torch.full((3,), value, dtype=torch.float64)}


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.newest() is None
    checkpoints.save(7, tensors(1 / 3), {"epoch": 2, "text": "é", "nothing": None})
    found = checkpoints.newest()
    assert found is not None
    assert (found.step, found.record, found.passed_over) == (7, {"epoch": 2, "text": "é", "nothing": None}, ())
    expected = tensors(1 / 3)
    assert found.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found.tensors[name], tensor)
        assert found.tensors[name].dtype == tensor.dtype


def test_the_newest_stay_and_the_same_step_may_come_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, value in [(1, 1.0), (9, 2.0), (10, 3.0), (10, 4.0), (100, 5.0)]:
        checkpoints.save(step, tensors(value), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000010", "000000000100"]
    found = checkpoints.newest()
    assert found is not None
    assert (found.step, float(found.tensors["c"][0])) == (100, 5.0)


def test_a_run_that_goes_back_leaves_no_future(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3, 2):
        checkpoints.save(step, tensors(1.0), {})
    assert [path.name for path in tmp_path.iterdir()] == ["000000000002"]


def damage(name: str, how: str, place: Path) -> None:
    path = place / name
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "flipped":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(how.encode())


@pytest.mark.parametrize("name", [TENSORS, RECORD, MANIFEST])
@pytest.mark.parametrize("how", ["missing", "cut", "flipped", "empty", "[]", '{"schema": 9}', "[" * 100_000])
def test_of_a_damaged_newest_checkpoint_the_one_before_is_used(tmp_path: Path, name: str, how: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, tensors(1.0), {"epoch": 1})
    damage(name, how, checkpoints.save(2, tensors(2.0), {"epoch": 2}))
    found = checkpoints.newest()
    assert found is not None
    assert (found.step, found.record) == (1, {"epoch": 1})
    (sentence,) = found.passed_over
    assert "000000000002 is damaged" in sentence
    damage(name, how, tmp_path / "000000000001")
    with pytest.raises(ValueError, match="must be sound"):
        checkpoints.newest()


def test_a_checkpoint_under_another_name_is_not_taken_for_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, tensors(1.0), {}).rename(tmp_path / "000000000005")
    with pytest.raises(ValueError, match="step must be that of its name"):
        checkpoints.newest()


def test_other_files_are_left_alone_and_unfinished_ones_removed(tmp_path: Path) -> None:
    mine = [".unfinished-20240101", "2024", "20240101", "notes"]
    for name in mine:
        (tmp_path / name).mkdir()
    (tmp_path / ".smallgroup-unfinished-0123456789abcdef").mkdir()
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(step, tensors(1.0), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["000000000002", "000000000003", *mine])


def test_a_disk_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, tensors(1.0), {})

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(2, tensors(2.0), {})
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001"]
    with pytest.raises(TypeError, match="JSON"):
        checkpoints.save(2, tensors(2.0), {"bad": object()})
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001"]


WRITER = """
import sys, torch
from pathlib import Path
from smallgroup.runtime.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]))
print("ready", flush=True)
for step in range(1, 100000):
    checkpoints.save(step, {"t": torch.full((50_000,), float(step))}, {"value": step})
"""


def killed_while_saving(folder: Path, event: int) -> bool:
    """Save step 2 in a process that dies at the n-th thing it does to its files; False: it did fewer."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    try:
        die_within(Attack("at a file", event=event), folder, os.open(os.devnull, os.O_WRONLY))
        Checkpoints(folder).save(2, tensors(5.0), {"epoch": 5})
    finally:
        os._exit(0)


@pytest.mark.parametrize("again", [False, True])
def test_killed_at_every_point_of_saving_nothing_is_lost(tmp_path: Path, again: bool) -> None:
    """Also where a checkpoint of that step is there already: until the new one is in its place, the old one counts."""
    event, folder = 0, tmp_path / "checkpoints"
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        checkpoints = Checkpoints(folder)
        for step in (1, 2) if again else (1,):
            checkpoints.save(step, tensors(float(step)), {"epoch": step})
        killed = killed_while_saving(folder, event)
        found = checkpoints.newest()
        assert found is not None
        assert (found.step, found.record["epoch"]) in ([(2, 2), (2, 5)] if again else [(1, 1), (2, 5)]), event
        assert float(found.tensors["c"][0]) == found.record["epoch"]
        assert found.passed_over == ()
        checkpoints.save(3, tensors(3.0), {})
        assert sorted(path.name for path in folder.iterdir())[1:] == ["000000000003"]
        if not killed:
            break
        event += 1
    assert event >= 8
    assert found.record["epoch"] == 5


def test_killed_at_any_moment_a_whole_checkpoint_is_left(tmp_path: Path) -> None:
    steps = []
    for round_ in range(6):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 + 0.037 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = Checkpoints(tmp_path).newest()
        if found is not None:
            assert found.passed_over == ()
            assert found.record == {"value": found.step}
            assert bool((found.tensors["t"] == found.step).all())
            steps.append(found.step)
    assert len(steps) >= 5
    assert json.loads((tmp_path / f"{steps[-1]:012d}" / MANIFEST).read_text())["schema"] == 1


def test_a_type_that_torch_has_not_is_damage(tmp_path: Path) -> None:
    """The checksums are right: whoever forged it could write them."""
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, tensors(1.0), {})
    newest = tmp_path / "000000000002"
    header = json.dumps({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0"
    (newest / TENSORS).write_bytes(content)
    manifest = json.loads((newest / MANIFEST).read_text())
    manifest["sha256"][TENSORS] = hashlib.sha256(content).hexdigest()
    (newest / MANIFEST).write_text(json.dumps(manifest))
    found = checkpoints.newest()
    assert found is not None
    assert found.step == 1
    assert "tensors.safetensors cannot be read" in found.passed_over[0]


@pytest.mark.parametrize("target", ["gone", "elsewhere"])
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    """It leads away from the run, perhaps to a disk that is not there now: that is no new beginning."""
    Checkpoints(tmp_path / "elsewhere").save(1, {}, {})
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    checkpoints.folder.symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match="must be a folder of the run itself, but it is a link"):
        checkpoints.newest()
    with pytest.raises(ValueError, match="it is a link"):
        checkpoints.save(2, {}, {})
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["000000000001"]


def test_a_checkpoint_that_is_a_link_is_passed_over_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    checkpoints, other = Checkpoints(tmp_path / "checkpoints", keep=1), Checkpoints(tmp_path / "elsewhere")
    checkpoints.save(1, {}, {})
    place = other.save(2, {}, {})
    (checkpoints.folder / place.name).symlink_to(place)
    found = checkpoints.newest()
    assert found is not None
    assert found.step == 1
    assert "but it is a link" in found.passed_over[0]
    checkpoints.save(3, {}, {})
    assert len(list(place.iterdir())) == 3
