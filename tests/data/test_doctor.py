import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from smallgroup.cli import main
from smallgroup.config import resolve
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


def test_damaged_images_are_all_named(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 4)
    class_folders(tmp_path / "val", 2, ("ants", "bees"))
    (sound,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert sound.status == "ok"
    assert sound.sentence.startswith("12 training and 4 test images of 3 classes")
    (tmp_path / "val" / "ants" / "0.png").write_text("no image")
    path = tmp_path / "val" / "bees" / "0.png"  # a JPEG all the same: names do not matter, and PNGs are always decoded
    Image.effect_noise((64, 64), 50).convert("RGB").save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:-1000])
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert finding.status == "damaged"
    assert "2 of 16 are not: " in finding.sentence
    assert "val/ants/0.png cannot be decoded" in finding.sentence
    assert "val/bees/0.png cannot be decoded" in finding.sentence


def test_of_imagenet_the_headers_are_read(tmp_path: Path) -> None:
    """It is looked at whenever somebody asks for a doctor: decoding all of it would take hours."""
    class_folders(tmp_path / "imagenet" / "train", 2)
    (tmp_path / "imagenet" / "train" / "ants" / "0.png").write_text("no image")
    (finding,) = examine(tmp_path, ("imagenet",))
    assert finding.status == "damaged"
    assert finding.sentence.startswith("1 images cannot be used: ")


def test_the_size_is_that_of_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ants", "bees"):
        for number in range(5):
            picture(tmp_path / name / f"{number}.png", 100, 90, key=f"{name}{number}")
    main(["doctor", f"folder:{tmp_path}", "--data-root", str(tmp_path / "none"), "--json"])
    (finding,) = (one for one in json.loads(capsys.readouterr().out)["findings"] if one["what"].startswith("folder:"))
    config = resolve({"dataset": f"folder:{tmp_path}"})
    assert config.data.size is None
    assert config.search.image_size == 16
    said = "images: 16x16 in searches of the recipe quick (search.image_size), else 64x64, the largest default; "
    said += "the files have 100x90; --size changes it; color: 3 channels"
    assert f"of 2 classes, 64 x 64 x 3; {said}" in finding["sentence"]


def test_images_in_both_parts_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 4)
    shutil.copytree(tmp_path / "train" / "cats", tmp_path / "val" / "cats")
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert "4 of 4 test images also occur among the training images" in finding.sentence


def test_names_that_are_none_are_findings_too(tmp_path: Path) -> None:
    found = examine(tmp_path, ("mnist", f"folder:{tmp_path / 'x'}", "folder:a\x00b"))
    assert [finding.status for finding in found] == ["missing", "missing", "missing"]
    assert "one of digits" in found[0].sentence
    assert all("\n" not in finding.sentence for finding in found)


def test_loose_images_are_fit_for_the_unlabeled_set(tmp_path: Path) -> None:
    name = f"folder:{tmp_path}"
    (finding,) = examine(tmp_path, (name,))
    assert (finding.status, finding.sentence) == ("missing", f"{tmp_path} holds no images")
    picture(tmp_path / "a.png")
    (finding,) = examine(tmp_path, (name,))
    assert (finding.status, finding.sentence) == ("ok", "1 images without classes, usable with --unlabeled")
    (tmp_path / "b.png").write_text("no image")
    (finding,) = examine(tmp_path, (name,))
    assert finding.status == "damaged"
    assert "b.png cannot be decoded" in finding.sentence


@pytest.mark.parametrize("place", ["camera", "2024/may"])
def test_unlabeled_images_in_a_folder_of_their_own_are_not_damaged(tmp_path: Path, place: str) -> None:
    for number in range(3):
        picture(tmp_path / place / f"{number}.png")
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert finding.status == "ok"
    assert finding.sentence.startswith("3 images without classes, usable with --unlabeled, but not with --dataset: ")


def test_unequal_classes_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path, 2)
    for number in range(9):
        picture(tmp_path / "ants" / f"more{number}.png")
    (finding,) = examine(tmp_path, (f"folder:{tmp_path}",))
    assert "classes are unequal: 'ants' has 11 training images, 'bees' has 2, 5.5 times as many" in finding.sentence
    assert "73.3 % of all are 'ants'" in finding.sentence


@needs_real_data
def test_real_data() -> None:
    assert REAL is not None
    assert {finding.what: finding.status for finding in examine(Path(REAL))}["cifar10"] in ("ok", "subset")
