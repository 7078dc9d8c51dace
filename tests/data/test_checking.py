"""All files are decoded before a run begins: every bad one is named at once, or left out and counted."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.data import DataConfig, DataError, FileImages, checking, open_search_data
from smallgroup.data.checking import check_files
from smallgroup.data.decoding import Unreadable, fingerprint
from smallgroup.data.decoding import picture as decode
from smallgroup.data.search_data import SearchData
from smallgroup.data.training_data import open_training_data
from tests.data.makers import class_folders, picture
from tests.data.test_decoding import bad_files

BAD = ("ants/0.png", "cats/3.JPG")


def spoil(folder: Path) -> None:
    (folder / BAD[0]).write_text("no image")
    path = folder / BAD[1]
    Image.effect_noise((64, 64), 50).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[:-1000])  # its header is sound


def opened(folder: Path, *, skip: bool) -> SearchData:
    return open_search_data(DataConfig(dataset=f"folder:{folder}", skip_bad_images=skip), seed=3)


def test_every_bad_file_is_named_at_once(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "photos", 8)
    assert opened(folder, skip=False).skipped == ()
    spoil(folder)
    with pytest.raises(DataError, match=r"must be readable, but 2 of 24 are not: ") as caught:
        opened(folder, skip=False)
    said = str(caught.value)
    assert all(name in said for name in (*BAD, "--skip-bad-images"))
    assert "\n" not in said
    for number in range(25):
        (folder / "bees" / f"bad\n{number}.png").touch()
    with pytest.raises(DataError, match=r"27 of 49 are not: .* is empty; and 7 more; ") as caught:
        opened(folder, skip=False)
    assert str(caught.value).isprintable()


def test_without_bad_files_everything_is_as_if_they_were_not_there(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "photos", 8)
    spoil(folder)
    found = opened(folder, skip=True)
    assert [Path(path).relative_to(folder).as_posix() for path in found.skipped] == list(BAD)
    assert "2 images that cannot be decoded are skipped: " in "; ".join(found.notes)
    config = DataConfig(dataset=f"folder:{folder}", skip_bad_images=True)
    assert open_training_data(config, config.augmentation, seed=3).skipped == found.skipped
    for name in BAD:
        (folder / name).unlink()
    clean = opened(folder, skip=False)
    assert isinstance(found.dataset.train, FileImages)
    assert isinstance(clean.dataset.train, FileImages)
    assert found.dataset.train.paths == clean.dataset.train.paths
    assert torch.equal(found.splits.train, clean.splits.train)
    assert found.digest == clean.digest


def test_unlabeled_images_are_decoded_as_well(tmp_path: Path) -> None:
    folder, more = class_folders(tmp_path / "photos", 8), tmp_path / "more"
    for number in range(3):
        picture(more / f"{number}.png", key=number)
    (more / "1.png").write_text("no image")
    config = DataConfig(dataset=f"folder:{folder}", unlabeled=f"folder:{more}")
    with pytest.raises(DataError, match=r"1 of 3 are not: .*more/1.png cannot be decoded"):
        open_search_data(config, seed=0)
    found = open_search_data(config.model_copy(update={"skip_bad_images": True}), seed=0)
    assert (len(found.unlabeled_indices), found.skipped) == (2, (str(more / "1.png"),))


def test_the_check_is_as_strict_as_the_decoder(tmp_path: Path) -> None:
    files = [path for path, _ in bad_files(tmp_path).values()] + [picture(tmp_path / "sound.png")]
    refused = []
    for path in files:
        try:
            decode(str(path), size=8, channels=3, margin=1.0, smallest=None, draws=None)
        except Unreadable as error:
            refused.append(str(error))
            with pytest.raises(Unreadable) as caught:
                fingerprint(str(path))
            assert str(caught.value) == refused[-1]
        else:
            fingerprint(str(path))
    assert len(refused) == len(files) - 1


@pytest.mark.parametrize("size", [None, 12])
def test_processes_find_what_this_one_finds_and_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = class_folders(tmp_path / "photos", 8)
    spoil(folder)
    shutil.copy(folder / "ants" / "2.png", folder / "bees" / "same.png")
    paths = sorted(str(path) for path in folder.rglob("*.*"))
    here = check_files(paths, size)
    assert len(here.sums) == (0 if size is None else len(paths) - len(BAD))
    assert set(here.prints) == {str(folder / name) for name in ("ants/2.png", "bees/same.png")}
    monkeypatch.setattr(checking, "FEW", 1)
    monkeypatch.setattr(checking, "PART", 7)
    monkeypatch.setattr(checking, "KEPT", 1)
    checking._known.clear()
    assert check_files(paths, size) == here
    monkeypatch.setattr(checking, "examinations", None)  # nobody is asked again, but where a file has changed
    checking._known.clear()
    assert check_files(paths, size) == here
    (folder / BAD[0]).write_text("still no image")
    with pytest.raises(TypeError):
        check_files(paths, size)


def test_a_run_without_bad_files_says_so_and_is_resumed_on_the_same_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = class_folders(tmp_path / "photos", 12), tmp_path / "run"
    sound = (folder / BAD[0]).read_bytes()
    spoil(folder)
    arguments = [f"--dataset=folder:{folder}", "--space=nas-bench-201", "--learners=1", "--out", str(out)]
    arguments += ["--set=space.channels=2", "--set=search.epochs=1", "--set=search.steps_per_epoch=1"]
    arguments += ["--set=search.batch_size={train: 4, unlabeled: 4, validation: 4}", "--set=data.size=8"]
    assert main(["search", *arguments]) == 2
    assert f"{folder}/{BAD[0]} cannot be decoded" in capsys.readouterr().err
    assert not out.exists()
    assert main(["search", *arguments, "--skip-bad-images", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["skipped_images"] == 2
    assert 0 <= result["balanced_error"] <= 100
    facts = json.loads((out / "facts.json").read_text())
    assert facts["skipped_images"] == [str(folder / name) for name in BAD]
    (out / "result.json").unlink()
    (folder / BAD[0]).write_bytes(sound)
    assert main(["search", "--out", str(out), "--resume"]) == 2
    assert "a run must be resumed on the images it started with" in capsys.readouterr().err


def test_runs_of_earlier_versions_are_still_known() -> None:
    """The key is new: where it says nothing, a run is what it was."""
    for plain in (resolve({}).of_search(), resolve({}).of_training()):
        assert "skip_bad_images" not in plain["data"]
    assert resolve({"skip_bad_images": True}).of_search()["data"]["skip_bad_images"] is True
