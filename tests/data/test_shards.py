"""Shards: the images of a folder at a smaller size, each by its place; files that are not what they say are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smallgroup.cli import main
from smallgroup.data import DataError, open_dataset
from smallgroup.data.augment import draw_parts
from smallgroup.data.decoding import header
from smallgroup.data.folder import open_imagenet, scan_parts, usual_augmentation
from smallgroup.data.images import FileImages
from smallgroup.data.loader import Reader, Stream
from smallgroup.data.shards import open_shards, write_shards
from smallgroup.runtime.tensor_files import read_tensors, tensor_bytes, tensors_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of several sizes and kinds in two classes, with a test part; one is stored on its side."""
    place = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for part, count in (("train", 6), ("val", 3)):
        for number in range(2 * count):
            name = place / part / "ab"[number % 2] / f"{number:02d}"
            name.parent.mkdir(parents=True, exist_ok=True)
            height, width = ((20, 30), (40, 24), (12, 12))[number % 3]
            image = Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))
            exif = Image.Exif()
            exif[0x0112] = 6 if number == 0 else 1
            image.save(name.with_suffix(".png"), exif=exif)
    return place


@pytest.fixture
def shards(folder: Path, tmp_path: Path) -> Path:
    out = tmp_path / "shards"
    write_shards(scan_parts(folder), out, side=16, encoding="ppm", shard_bytes=3000, workers=1)
    return out


def test_shards_hold_every_image_upright_at_the_size_that_is_asked_for(folder: Path, shards: Path) -> None:
    plain, found = scan_parts(folder), scan_parts(shards)
    assert found.keys() == plain.keys() == {"train", "val"}
    assert len(list((shards / "train").glob("*.shard"))) > 1
    for part in plain:
        assert found[part][0] == plain[part][0]
        assert torch.equal(found[part][2], plain[part][2])
        for file, place in zip(plain[part][1], found[part][1], strict=True):
            with Image.open(file) as image:
                least, turned = min(image.size), image.getexif().get(0x0112) == 6
                width, height = (edge if least <= 16 else round(edge * 16 / least) for edge in image.size)
                expected = image.resize((width, height), Image.Resampling.BICUBIC) if least > 16 else image
                expected = expected.transpose(Image.Transpose.ROTATE_270) if turned else expected
                pixels, head = np.asarray(expected), b"P6\n%d %d\n255\n" % expected.size
            name, _, where = place.partition("\0")
            offset, length = map(int, where.split("+"))
            content = Path(name).read_bytes()[offset : offset + length]
            assert content == head + pixels.tobytes()


def test_a_dataset_of_shards_is_read_in_any_order_by_workers_and_as_imagenet(folder: Path, shards: Path) -> None:
    dataset, plain = open_dataset(f"folder:{shards}", Path(), size=8), open_dataset(f"folder:{folder}", Path(), size=8)
    assert (dataset.classes, len(dataset.train), dataset.test is not None) == (plain.classes, 12, True)
    moved = shards.parent / "moved"
    shards.rename(moved)
    again = open_dataset(f"folder:{moved}", Path(), size=8)
    assert again.train.digest() == dataset.train.digest()
    augmentation = usual_augmentation(100)
    streams = [
        Stream(
            again.train, torch.arange(12), batch_size=5, seed=3, purpose="shards", augmentation=augmentation,
            mean=(0.5,) * 3, std=(0.5,) * 3, workers=workers,
        )
        for workers in (0, 1)
    ]  # fmt: skip
    reader = Reader(streams[1])
    for step in (2, 3):  # taken up in the middle
        for ours, theirs in zip(reader.batch(step), streams[0].batch(step), strict=True):
            assert torch.equal(ours, theirs)
    reader.close()
    # An image that keeps its size in shards is the same image, whatever part of it is drawn.
    parts = draw_parts(augmentation, 12, "parts")
    assert isinstance(plain.train, FileImages)
    same = [k for k, path in enumerate(plain.train.paths) if header(path) == (12, 12)]
    drawn = [one.train.fetch(torch.arange(12), parts)[same] for one in (plain, again)]
    assert len(same) == 4
    assert torch.equal(*drawn)
    assert open_imagenet(moved, 8).notes == open_imagenet(folder, 8).notes


def test_the_command_writes_shards_and_leaves_out_or_refuses_what_cannot_be_decoded(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    shutil.copytree(folder, images)
    (images / "train" / "a" / "broken.jpg").write_bytes(b"no image")
    out = tmp_path / "out"
    assert main(["shards", str(images), "--out", str(out), "--side", "16"]) == 2
    assert "broken.jpg" in (said := capsys.readouterr().err)
    assert "--skip-bad-images leaves it out" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]  # nothing is left behind
    assert main(["shards", str(images), "--out", str(out), "--side", "16", "--skip-bad-images", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["images"], len(said["skipped"])) == ({"train": 12, "val": 6}, 1)
    assert main(["shards", str(images), "--out", str(out)]) == 2
    assert "--out must be a new folder, but" in capsys.readouterr().err
    assert main(["shards", str(images), "--out", str(tmp_path / "b"), "--encoding", "png"]) == 2


def change_index(name: str, value: int) -> Callable[[Path], None]:
    def change(shards: Path) -> None:
        path = shards / "train" / "index.safetensors"
        columns = tensors_of(read_tensors(path))
        columns[name][3] = value
        path.write_bytes(tensor_bytes(columns))

    return change


def change_manifest(text: str, other: str) -> Callable[[Path], None]:
    def change(shards: Path) -> None:
        path = shards / "shards.json"
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, other, 1))

    return change


def cut(shards: Path) -> None:
    path = shards / "train" / "00000.shard"
    path.write_bytes(path.read_bytes()[:-1])


def link(shards: Path) -> None:
    path = shards / "train" / "00000.shard"
    path.rename(shards / "real")
    path.symlink_to(shards / "real")


def pickle_index(shards: Path) -> None:
    torch.save({"shard": torch.zeros(12)}, shards / "train" / "index.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        change_index("offset", -1),
        change_index("offset", 2**62),
        change_index("length", 10**6),
        change_index("length", 0),
        change_index("shard", 99),
        change_index("label", 2),
        change_manifest('"images": 12', '"images": 11'),
        change_manifest('"train"', '"../x"'),
        change_manifest('"schema_version": 1', '"schema_version": 2'),
        change_manifest('"a"', '"b"'),
        change_manifest("{", "["),
        cut,
        link,
        pickle_index,
    ],
)
def test_shards_that_are_not_what_they_say_are_refused(change: Callable[[Path], None], shards: Path) -> None:
    change(shards)
    with pytest.raises(DataError, match="must describe sound shards, but it does not"):
        open_shards(shards)
