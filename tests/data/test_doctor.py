from pathlib import Path

import pytest
from PIL import Image

from smallgroup.data import examine
from tests.data.makers import REAL, cifar10_folder, class_folders, needs_real_data, picture, write_pickle


def test_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    digits, cifar10, cifar100, imagenet = examine(tmp_path)
    assert (digits.what, digits.where, digits.status) == ("digits", "scikit-learn", "ok")
    assert digits.sentence == "1,438 training and 359 test images of 10 classes, 8 x 8 x 1"
    assert (cifar10.status, cifar10.where) == ("subset", str(tmp_path / "cifar-10-batches-py"))
    assert "200 of 50,000 training images" in cifar10.sentence
    assert (cifar100.status, imagenet.status) == ("missing", "missing")
    assert str(tmp_path / "imagenet") in imagenet.sentence
    assert [finding.status for finding in examine(tmp_path / "nowhere")] == ["ok", "missing", "missing", "missing"]


def test_damage_is_a_finding_and_no_error(tmp_path: Path) -> None:
    write_pickle(cifar10_folder(tmp_path) / "test_batch", {b"data": print})
    (tmp_path / "cifar-100-python").write_text("a file")
    (tmp_path / "imagenet").mkdir()
    _, cifar10, cifar100, imagenet = examine(tmp_path)
    assert (cifar10.status, cifar100.status, imagenet.status) == ("damaged",) * 3
    assert "test_batch is refused and nothing in it was executed" in cifar10.sentence
    assert "is a file" in cifar100.sentence
    assert "imagenet/train does not exist" in imagenet.sentence


@pytest.mark.parametrize("decoded", [2000, 5])
def test_damaged_images_are_found_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: int) -> None:
    monkeypatch.setattr("smallgroup.data.doctor.DECODED", decoded)
    monkeypatch.setattr("smallgroup.data.folder.SAMPLE", 1)
    class_folders(tmp_path / "train", 4)
    class_folders(tmp_path / "val", 2)
    (sound,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert sound.status == "ok"
    assert sound.sentence.startswith("12 training and 6 test images of 3 classes")
    (tmp_path / "val" / "ants" / "0.png").write_text("no image")
    path = tmp_path / "val" / "cats" / "0.png"  # a JPEG all the same: names do not matter, and PNGs are always decoded
    Image.effect_noise((64, 64), 50).convert("RGB").save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:-1000])
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert finding.status == "damaged"
    assert "val/ants/0.png cannot be decoded" in finding.sentence
    # A file cut off in the middle has a sound header: large sets are only read so far.
    assert ("(2 such files)" in finding.sentence) == (decoded == 2000)


def test_names_that_are_none_are_findings_too(tmp_path: Path) -> None:
    found = examine(tmp_path, ("mnist", f"folder:{tmp_path / 'x'}", "folder:a\x00b"))
    assert [finding.status for finding in found] == ["missing", "missing", "missing"]
    assert "one of digits" in found[0].sentence
    assert all("\n" not in finding.sentence for finding in found)


def test_loose_images_are_fit_for_the_unlabelled_set(tmp_path: Path) -> None:
    name = f"folder:{tmp_path}"
    (finding,) = examine(tmp_path, (name,))
    assert (finding.status, finding.sentence) == ("missing", f"{tmp_path} holds no images")
    picture(tmp_path / "a.png")
    (finding,) = examine(tmp_path, (name,))
    assert (finding.status, finding.sentence) == ("ok", "1 images of no class, fit for the unlabelled set")
    (tmp_path / "b.png").write_text("no image")
    (finding,) = examine(tmp_path, (name,))
    assert finding.status == "damaged"
    assert "b.png cannot be decoded" in finding.sentence


def test_unequal_classes_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path, 2)
    for number in range(9):
        picture(tmp_path / "ants" / f"more{number}.png")
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert "classes are unequal: 'ants' has 11 training images, 'bees' has 2" in finding.sentence


@needs_real_data
def test_real_data() -> None:
    assert REAL is not None
    assert {finding.what: finding.status for finding in examine(Path(REAL))}["cifar10"] in ("ok", "subset")
