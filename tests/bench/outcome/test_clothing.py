"""The gray pictures of clothes: the same for the same seed, of balanced classes, and never among other files."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smallgroup.bench.outcome.clothing import CLASSES, SIZE, draw_picture, main, write_folder
from smallgroup.data.sources import open_dataset


def hashes(order: list[tuple[str, str, int]], seed: int = 0) -> dict[tuple[str, str, int], str]:
    return {
        (part, name, number): hashlib.sha256(draw_picture(name, number, part=part, seed=seed).tobytes()).hexdigest()
        for part, name, number in order
    }


def test_a_picture_depends_on_its_seed_part_class_and_number_alone() -> None:
    order = [(part, name, number) for part in ("train", "val") for name in CLASSES for number in range(3)]
    first = hashes(order)
    assert hashes(order[::-1]) == first
    assert len(set(first.values())) == len(order)
    assert not set(first.values()) & set(hashes(order, seed=1).values())


def test_a_folder_of_balanced_gray_classes(tmp_path: Path) -> None:
    main([str(tmp_path / "clothes"), "--seed", "3", "--train", "4", "--test", "2"])
    for part, count in (("train", 4), ("val", 2)):
        files = sorted((tmp_path / "clothes" / part).rglob("*.png"))
        assert Counter(file.parent.name for file in files) == dict.fromkeys(CLASSES, count)
        for file in files:
            with Image.open(file) as picture:
                assert (picture.mode, picture.size) == ("L", (SIZE, SIZE))
                pixels = np.asarray(picture)
            assert np.array_equal(pixels, draw_picture(file.parent.name, int(file.stem), part=part, seed=3))
    dataset = open_dataset(f"folder:{tmp_path / 'clothes'}", tmp_path, size=SIZE)
    assert dataset.classes == CLASSES
    assert len(dataset.train) == 40


def test_other_files_stay_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match="a data set needs a new or empty folder"):
        write_folder(tmp_path, train=1, test=1)
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "holds other files, such as thesis.tex" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("option", ["--train", "--test"])
def test_a_part_without_pictures_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "clothes"), option, "0"])
    assert not (tmp_path / "clothes").exists()


def test_pictures_of_another_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "large", train=1, test=1, size=96)
    files = sorted((tmp_path / "large").rglob("*.png"))
    assert len(files) == 2 * len(CLASSES)
    with Image.open(files[0]) as image:
        assert (image.size, image.mode) == ((96, 96), "L")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "other"), "--size", "200"])
    assert "--size must be 6 to 112, but got 200" in capsys.readouterr().err
