"""Images of every kind become the pixels a viewer would show, or a sentence."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from smallgroup.data import DataError, FileImages, decoding
from smallgroup.data.augment import Parts
from smallgroup.data.decoding import DRAWS, Unreadable, center_box, header, random_box
from smallgroup.runtime import stream
from tests.data.makers import array, noise, picture


def fetched(path: Path, size: int = 8, channels: int = 3, margin: float = 1.0) -> torch.Tensor:
    return FileImages([str(path)], None, size=size, channels=channels, margin=margin).fetch(torch.tensor([0]))[0]


def test_a_square_of_the_right_size_is_pixel_exact(tmp_path: Path) -> None:
    pixels = noise(8, 8, 3)
    Image.fromarray(pixels.numpy()).save(tmp_path / "a.png")
    assert torch.equal(fetched(tmp_path / "a.png"), pixels.permute(2, 0, 1))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_cameras_rotation_is_applied_exactly(tmp_path: Path, orientation: int) -> None:
    upright = noise(8, 12, 3).numpy()
    # What a camera held in each way writes, so that the viewer's rotation gives the upright image.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1],
        7: upright.transpose(1, 0, 2)[::-1, ::-1],
        8: upright.transpose(1, 0, 2)[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a.png", exif=exif)
    assert header(str(tmp_path / "a.png")) == (12, 8)
    shown = torch.from_numpy(upright).permute(2, 0, 1)
    assert torch.equal(fetched(tmp_path / "a.png"), shown[:, :, 2:10])
    # A part at the upper right: 4 x 4 pixels, so that nothing is resampled.
    draws = [(16 / 96 - 0.08) / 0.92, 0.5] * 10 + [0.9, 0.3]
    parts = Parts(0.08, torch.tensor([draws], dtype=torch.float64))
    part = FileImages([str(tmp_path / "a.png")], None, size=4).fetch(torch.tensor([0]), parts)[0]
    assert torch.equal(part, shown[:, 1:5, 8:12])


def test_gray_becomes_color_and_color_gray(tmp_path: Path) -> None:
    pixels = noise(8, 8)
    Image.fromarray(pixels.numpy()).save(tmp_path / "a.png")
    assert torch.equal(fetched(tmp_path / "a.png"), pixels.expand(3, 8, 8))
    colors = noise(8, 8, 3)
    Image.fromarray(colors.numpy()).save(tmp_path / "b.png")
    luma = (colors.double() * torch.tensor([0.299, 0.587, 0.114])).sum(2)
    assert fetched(tmp_path / "b.png", channels=1).shape == (1, 8, 8)
    torch.testing.assert_close(fetched(tmp_path / "b.png", channels=1)[0].double(), luma, atol=1.0, rtol=0)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path, suffix: str) -> None:
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    expected = np.round(values / 257).astype(np.uint8)
    np.testing.assert_array_equal(fetched(tmp_path / f"a.{suffix}")[0].numpy(), expected)


def test_thirty_two_bits_and_floats_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 70000, np.int32)).save(tmp_path / "a.tif")
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "b.tif")
    with pytest.raises(DataError, match=r"a.tif has 32 bits per channel"):
        fetched(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"b.tif has floating-point pixels"):
        fetched(tmp_path / "b.tif")


def test_cmyk_of_print_shops(tmp_path: Path) -> None:
    # Full yellow and nothing else; half black.
    inks = np.zeros((8, 8, 4), np.uint8)
    inks[:, :4, 2] = 255
    inks[:, 4:, 3] = 128
    Image.fromarray(inks, mode="CMYK").save(tmp_path / "a.tif")
    found = fetched(tmp_path / "a.tif")
    assert found[:, 0, 0].tolist() == [255, 255, 0]
    assert found[:, 0, 7].tolist() == [127, 127, 127]


def test_palettes_and_transparency_lie_over_white(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., 0] = 200
    pixels[:4, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = fetched(tmp_path / "a.png")
    assert found[:, 0, 0].tolist() == [200, 0, 0]
    assert found[:, 7, 0].tolist() == [255, 255, 255]
    palette = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % 2, mode="P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.save(tmp_path / "b.png")
    assert fetched(tmp_path / "b.png")[:, 0, :2].tolist() == [[10, 40], [20, 50], [30, 60]]
    palette.save(tmp_path / "c.png", transparency=1)
    assert fetched(tmp_path / "c.png")[:, 0, :2].tolist() == [[10, 255], [20, 255], [30, 255]]
    Image.fromarray(np.eye(8) > 0).save(tmp_path / "d.png")
    assert torch.equal(fetched(tmp_path / "d.png")[0], torch.eye(8, dtype=torch.uint8) * 255)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 50), (3, 2), (301, 7), (64, 64)])
def test_odd_sizes_are_brought_to_size(tmp_path: Path, width: int, height: int) -> None:
    Image.new("RGB", (width, height), (9, 99, 199)).save(tmp_path / "a.png")
    found = fetched(tmp_path / "a.png")
    assert found.shape == (3, 8, 8)
    assert torch.equal(found, torch.tensor([9, 99, 199], dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8))


def test_the_center_is_kept_with_and_without_a_margin(tmp_path: Path) -> None:
    assert center_box(500, 375, 1) == (62, 0, 437, 375)
    assert center_box(375, 500, 256 / 224) == (23, 86, 351, 414)
    picture(tmp_path / "a.png", 40, 30)
    with Image.open(tmp_path / "a.png") as image:
        expected = array(image.resize((8, 8), Image.Resampling.BILINEAR, box=(7, 2, 33, 28)))
    np.testing.assert_array_equal(fetched(tmp_path / "a.png", margin=256 / 224).permute(1, 2, 0).numpy(), expected)


def test_large_photographs_are_decoded_smaller_but_look_the_same(tmp_path: Path) -> None:
    smooth = Image.fromarray(noise(12, 12, 3).numpy()).resize((900, 700), Image.Resampling.BICUBIC)
    for orientation in (1, 6, 8):
        exif = Image.Exif()
        exif[0x0112] = orientation
        smooth.save(tmp_path / "a.jpg", quality=95, exif=exif)
        with Image.open(tmp_path / "a.jpg") as image:
            turned = ImageOps.exif_transpose(image)
        exact = turned.resize((32, 32), Image.Resampling.BILINEAR, box=center_box(*turned.size, 1))
        found = fetched(tmp_path / "a.jpg", 32).permute(1, 2, 0).double()
        assert (found - torch.from_numpy(array(exact).copy()).double()).abs().mean() < 2.5


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    photograph = picture(folder / "whole.jpg", 200, 200)
    content = photograph.read_bytes()
    (folder / "truncated.jpg").write_bytes(content[: len(content) // 2])
    (folder / "header.jpg").write_bytes(content[:20])
    (folder / "text.png").write_text("no image")
    (folder / "empty.gif").write_bytes(b"")
    (folder / "postscript.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (folder / "folder.png").mkdir()
    (folder / "link.png").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.png")
    png = picture(folder / "whole.png", 200, 200).read_bytes()
    (folder / "truncated.png").write_bytes(png[:-5000])
    (folder / "bomb.ppm").write_bytes(b"P6 60000 60000 255\n")
    (folder / "large.ppm").write_bytes(b"P6 12000 12000 255\n")
    return {
        "truncated.jpg": (folder / "truncated.jpg", "cannot be decoded"),
        "header.jpg": (folder / "header.jpg", "cannot be decoded"),
        "text.png": (folder / "text.png", "it is no image of a known format"),
        "empty.gif": (folder / "empty.gif", "is empty"),
        "postscript.jpg": (folder / "postscript.jpg", "it is no image of a known format"),
        "folder.png": (folder / "folder.png", "is not a regular file"),
        "link.png": (folder / "link.png", "no such file"),
        "pipe.png": (folder / "pipe.png", "is not a regular file"),
        "truncated.png": (folder / "truncated.png", "cannot be decoded"),
        "bomb.ppm": (folder / "bomb.ppm", "more than the limit of 100,000,000 pixels"),
        "large.ppm": (folder / "large.ppm", "has 12000 x 12000 pixels, more than the limit of 100,000,000"),
    }


def test_every_damaged_file_gets_a_sentence_that_names_it(tmp_path: Path) -> None:
    for name, (path, expected) in bad_files(tmp_path).items():
        with pytest.raises(DataError, match=expected) as caught:
            fetched(path)
        assert str(caught.value).startswith(f"image {tmp_path}/{name} ")
        assert "\n" not in str(caught.value)


def test_damaged_metadata_does_not_matter(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg", 16, 16)
    with Image.open(tmp_path / "a.jpg") as image:
        image.save(tmp_path / "b.jpg", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\x7f")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetched(tmp_path / "b.jpg").shape == (3, 8, 8)


def test_unreadable_headers_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("x")
    with pytest.raises(Unreadable, match="no image of a known format"):
        header(str(tmp_path / "a.png"))


def test_random_parts_have_the_published_distribution() -> None:
    draws = torch.rand(20_000, DRAWS, dtype=torch.float64, generator=stream("parts")).tolist()
    boxes = torch.tensor([random_box(400, 300, 0.08, row) for row in draws], dtype=torch.float64)
    left, top, right, bottom = boxes.unbind(1)
    width, height = right - left, bottom - top
    assert left.min() >= 0
    assert top.min() >= 0
    assert right.max() <= 400
    assert bottom.max() <= 300
    ratio = width / height
    assert ratio.min() > 0.74
    assert ratio.max() < 1.35
    share = width * height / (400 * 300)
    assert share.min() > 0.078
    # Small parts always fit: their areas and shapes are those drawn, uniform and log-uniform.
    small = share < 0.5
    assert abs(share[small].mean() - 0.29) < 0.005
    assert abs(ratio[small].log().mean()) < 0.01
    assert abs(ratio[small].log().std() - (2 * np.log(4 / 3)) / 12**0.5) < 0.005
    # The place is uniform among those that fit.
    assert abs((left / (400 - width).clamp(min=1))[small].mean() - 0.5) < 0.01
    assert abs((top / (300 - height).clamp(min=1))[small].mean() - 0.5) < 0.01


def test_parts_that_never_fit_fall_back_to_the_center() -> None:
    assert random_box(1000, 10, 1.0, [0.5] * DRAWS) == (493, 0, 506, 10)
    assert random_box(10, 1000, 1.0, [0.5] * DRAWS) == (0, 493, 10, 506)
    assert random_box(1, 1, 0.08, [0.0] * DRAWS)[2:] > (0, 0)


def test_the_worker_file_needs_neither_torch_nor_the_package() -> None:
    text = Path(decoding.__file__).read_text()
    assert "import torch" not in text
    assert "smallgroup" not in text


@pytest.mark.parametrize(("width", "height", "size"), [(97, 100, 5), (65, 65, 4), (64, 64, 1), (129, 65, 3)])
def test_photographs_become_very_small_pictures(tmp_path: Path, width: int, height: int, size: int) -> None:
    path = tmp_path / "photograph.jpg"
    Image.new("RGB", (width, height), (200, 100, 50)).save(path, quality=95)
    found = decoding.picture(str(path), size=size, channels=3, margin=1.0, smallest=None, draws=None)
    assert found.shape == (3, size, size)
    assert abs(int(found[0, 0, 0]) - 200) < 4
