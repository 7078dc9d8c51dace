"""Untrusted images and folders: bombs, lies about what a file is, several pictures in one, names and loops."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from smallgroup.cli import main
from smallgroup.data.decoding import Unreadable, picture
from smallgroup.data.errors import DataError
from smallgroup.data.folder import images_below, open_folder
from tests.reliability.runs import Captured
from tests.tools.chaos.subjects import draw_images

PIXELS: dict[str, Any] = {"size": 4, "channels": 3, "margin": 1.0, "smallest": None, "draws": None}


def png(width: int, height: int, content: bytes = b"") -> bytes:
    """A PNG that claims a size, with whatever for its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    first = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", first) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


BAD = {
    "a bomb by its header": (png(200_000, 200_000), "more than the limit of 100,000,000"),
    "a bomb just above the limit": (png(10_001, 10_000), "more than the limit of 100,000,000"),
    "no side": (png(0, 5), "cannot be decoded"),
    "pixels that are missing": (png(9_000, 9_000, zlib.compress(b"\0" * 99)), "cannot be decoded"),
    "a stream that is none": (png(20, 20, b"abc"), "cannot be decoded"),
    "a tail that is cut off": (png(20, 20, zlib.compress(b"\0" * 1220))[:-20], "cannot be decoded"),
    "a program": (b"\x7fELF" + b"\0" * 99, "no image of a known format"),
    "a vector drawing": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image of a known format"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_get_a_sentence(name: str, tmp_path: Path) -> None:
    content, said = BAD[name]
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(Unreadable, match=said):
        picture(str(tmp_path / "a.png"), **PIXELS)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_several_pictures_in_a_file_the_first_is_taken(form: str, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), color) for color in ((250, 0, 0), (0, 250, 0), (0, 0, 250))]
    frames[0].save(tmp_path / "a.png", form, save_all=True, append_images=frames[1:])  # also another ending
    found = picture(str(tmp_path / "a.png"), **PIXELS)
    assert np.abs(found.mean(axis=(1, 2)) - [250, 0, 0]).max() < 10


ODD = ["with space", "new\nline", "-rf", "$(exit 3)", "quote'\"", "ümlaut", "a" * 200, "\u202eright", "emoji 🐜"]


def test_classes_of_odd_names_are_classes(tmp_path: Path, capsys: Captured) -> None:
    draw_images(tmp_path / "images", 1)
    for name in ODD:
        (tmp_path / "images" / name).mkdir()
        for number in range(4):
            Image.new("RGB", (8, 8)).save(tmp_path / "images" / name / f"{number}\t'.png")
    found = open_folder(tmp_path / "images")
    assert set(ODD) <= set(found.classes)
    small = ["--set=space.channels=2", "--set=search.epochs=1", "--set=search.steps_per_epoch=1", "--learners=1"]
    small += ["--set=data.size=8", "--set=search.batch_size={train: 2, unlabeled: 2, validation: 2}"]
    arguments = ["search", f"--dataset=folder:{tmp_path / 'images'}", "--hypergradient=first-order", *small]
    code = main([*arguments, "--data-root=nowhere", "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert code in (0, 2), said
    assert "Traceback" not in said


def test_names_that_are_no_text_are_images_too(tmp_path: Path) -> None:
    draw_images(tmp_path, 3)
    odd = bytes(tmp_path / "left") + b"/\xff\xfe.png"
    Path(str(tmp_path / "left" / "0.png")).rename(Path(odd.decode(errors="surrogateescape")))
    assert len(images_below(tmp_path / "left")) == 3
    open_folder(tmp_path)


def loop_of_a_file(images: Path) -> None:
    (images / "left" / "a.png").symlink_to("a.png")


def loop_of_a_class(images: Path) -> None:
    (images / "class").symlink_to("class")


def loop_of_two(images: Path) -> None:
    (images / "left" / "b").symlink_to("c")
    (images / "left" / "c").symlink_to("b")


@pytest.mark.parametrize("loop", [loop_of_a_file, loop_of_a_class, loop_of_two])
def test_links_that_lead_to_themselves_are_refused_or_passed_over(loop: Any, tmp_path: Path) -> None:
    draw_images(tmp_path, 5)
    loop(tmp_path)
    try:
        assert len(open_folder(tmp_path).train) >= 6
    except DataError as error:
        assert "link" in str(error)  # noqa: PT017 -- either is right


def test_folders_within_folders_within_folders(tmp_path: Path) -> None:
    draw_images(tmp_path, 5)
    deep = tmp_path / "left"
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert len(images_below(tmp_path / "left")) == 5
