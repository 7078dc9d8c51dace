"""One image file to one square of pixels; also the whole of a worker process.

This file imports nothing of the package, and no torch: run as a script it is a worker (`serve`) that starts in a
fraction of a second. What is random about a picture is drawn by the caller and given as numbers, so it does not matter
who decodes it.
"""

import hashlib
import io
import json
import math
import os
import stat
import struct
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

# Formats by name: Pillow would otherwise run a PostScript interpreter on what merely claims to be a photograph.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
MOST_PIXELS = 100_000_000
TRIES = 10
DRAWS = 2 * TRIES + 2
"""Uniform numbers that a random resized crop takes: area and shape for each try, then the place."""

PLACE = "\0"
"""Stands between the name of a shard and the place of an image in it, `OFFSET+LENGTH`; see `shards.py`."""
PRINTED = 64
"""The size of a picture for which images are decoded to be compared."""
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
REPLY = struct.Struct("<?Q")
"""What precedes a worker's answer: whether it is pixels (or a sentence), and its length in bytes."""

CropBox = tuple[float, float, float, float]


class Unreadable(Exception):
    """An image cannot be used; the message continues the sentence after the file's name."""


def random_box(width: int, height: int, smallest: float, draws: Sequence[float]) -> CropBox:
    """Return the part of an image that a random resized crop keeps.

    Its area is uniform in [smallest, 1] of the image, its logarithm of width : height uniform between 3 : 4 and 4 : 3,
    its place uniform; after ten draws that do not fit, the largest centered part of an allowed shape.
    """
    low, high = math.log(3 / 4), math.log(4 / 3)
    for area, shape in zip(draws[0 : 2 * TRIES : 2], draws[1 : 2 * TRIES : 2], strict=True):
        target = width * height * (smallest + (1 - smallest) * area)
        ratio = math.exp(low + (high - low) * shape)
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(draws[-2] * (width - w + 1)), int(draws[-1] * (height - h + 1))
            return left, top, left + w, top + h
    w = max(1, min(width, round(height * 4 / 3)))
    h = max(1, min(height, round(width * 4 / 3)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def center_box(width: int, height: int, margin: float) -> CropBox:
    """Return the centered square whose side is the short side of the image divided by `margin`."""
    side = max(1, round(min(width, height) / margin))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _scale(stored: tuple[int, int], size: tuple[int, int]) -> int:
    """Return the factor by which a JPEG was shrunk in decoding; sizes are rounded up, so their quotient differs."""

    def miss(scale: int) -> int:
        return sum(abs(math.ceil(full / scale) - now) for full, now in zip(stored, size, strict=True))

    return min((1, 2, 4, 8), key=miss)


def picture(
    source: str | Image.Image,
    *,
    size: int,
    channels: int,
    margin: float,
    smallest: float | None,
    draws: Sequence[float] | None,
) -> NDArray[np.uint8]:
    """Return a part of an image, resampled to [channels, size, size]: the drawn part, or the center without draws.

    The source is a file by its path, or an image in memory, which is not changed.
    """
    with _any_failure_told():
        pixels, box, turn = _decoded(source, size=size, margin=margin, smallest=smallest, draws=draws)
        pixels = pixels.convert("L" if channels == 1 else "RGB")
        pixels = pixels.resize((size, size), Image.Resampling.BILINEAR, box=box)
        if turn in TURNS:
            pixels = pixels.transpose(TURNS[turn])
        array = np.asarray(pixels)
    return array[None] if channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


def whole(image: Image.Image) -> NDArray[np.uint8]:
    """Return all pixels of an image as shown, [channels, height, width]: 1 channel if it is stored so, else 3.

    The image is not changed.
    """
    with _any_failure_told(), _copied(image) as copied:
        turn = _orientation(copied)
        pixels = _eight_bits(copied)
        pixels = pixels if pixels.mode == "L" else pixels.convert("RGB")
        if turn in TURNS:
            pixels = pixels.transpose(TURNS[turn])
        array = np.array(pixels)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def fingerprint(path: str, size: int | None = None) -> tuple[str, list[int]]:
    """Return a text that two images share if their pixels are the same, and with a size their sums (see `sums_of`).

    Raises `Unreadable` where `picture` does. Large JPEG files are decoded at a fraction of their size, as for a small
    picture.
    """
    with _any_failure_told():
        pixels, box, turn = _decoded(path, size=max(PRINTED, size or 0), margin=1.0, smallest=None, draws=None)
        pixels = pixels.convert("RGB")
        sums = [] if size is None else sums_of(pixels, box, size)
        if turn in TURNS:
            pixels = pixels.transpose(TURNS[turn])
        content = b"%d x %d:" % pixels.size + pixels.tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest(), sums


def sums_of(pixels: Image.Image, box: CropBox, size: int) -> list[int]:
    """Return the sum and the sum of squares of each channel of a part of an RGB image, resampled to size x size.

    A gray image has one channel: red, green and blue are the same in every pixel of the whole image. Whole numbers: the
    mean of a dataset does not depend on the order of its files, nor on the machine.
    """
    values = np.asarray(pixels)
    if (values[..., 0] == values[..., 1]).all() and (values[..., 1] == values[..., 2]).all():
        pixels = pixels.getchannel(0)
    part = np.asarray(pixels.resize((size, size), Image.Resampling.BILINEAR, box=box)).reshape(size * size, -1)
    part = part.astype(np.int64)
    return np.stack([part.sum(0), (part * part).sum(0)], 1).ravel().tolist()


@contextmanager
def _any_failure_told() -> Iterator[None]:
    """Turn any error of Pillow's decoders into one: on damaged files they raise nearly everything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is raised; the rest does not concern the pixels
            yield
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"cannot be decoded: {_words(error)}") from None


def _decoded(
    source: str | Image.Image, *, size: int, margin: float, smallest: float | None, draws: Sequence[float] | None
) -> tuple[Image.Image, CropBox, int]:
    """Return the pixels as stored, the part of them that is wanted, and how they are to be turned."""
    with _opened(source) if isinstance(source, str) else _copied(source) as image:
        turn, stored = _orientation(image), image.size
        # EXIF orientations 5 to 8 swap width and height.
        width, height = stored if turn < 5 else stored[::-1]
        box = center_box(width, height, margin)
        if draws is not None and smallest is not None:
            box = random_box(width, height, smallest, draws)
        shrink = min(box[2] - box[0], box[3] - box[1]) / (2 * size)
        if shrink > 1:
            # A JPEG can be decoded at 1/2, 1/4 or 1/8; still twice as fine as needed, the rest is resampled.
            image.draft(None, (math.ceil(stored[0] / shrink), math.ceil(stored[1] / shrink)))
        scale = _scale(stored, image.size)
        left, top, right, bottom = _as_stored(box, turn, *stored)
        box = left / scale, top / scale, min(right / scale, image.width), min(bottom / scale, image.height)
        return _eight_bits(image), box, turn


def header(path: str) -> tuple[int, int]:
    """Return width and height as shown (after the camera's rotation), from the first bytes of a file."""
    with _any_failure_told(), _opened(path) as image:
        return image.size if _orientation(image) < 5 else (image.height, image.width)


def _opened(path: str) -> Image.Image:
    name, in_shard, place = path.partition(PLACE)
    found = os.stat(name)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("is not a regular file")
    if not found.st_size:
        raise Unreadable("is empty")
    image = Image.open(io.BytesIO(_part_of(name, place)) if in_shard else path, formats=FORMATS)
    try:
        _check_pixels(image)
    except Unreadable:
        image.close()
        raise
    return image


def _part_of(name: str, place: str) -> bytes:
    """Return an image file that is part of a shard."""
    offset, length = (int(number) for number in place.split("+"))
    with open(name, "rb") as file:
        file.seek(offset)
        return file.read(length)


def shrunk(path: str, side: int, encoding: str, quality: int) -> bytes:
    """Return an image, upright and with a short side of at most `side` pixels, as a JPEG or PPM file."""
    with _any_failure_told():
        whole_image = {"margin": 1.0, "smallest": None, "draws": None}
        pixels, _, turn = _decoded(path, size=side, **whole_image)  # type: ignore[arg-type]
        pixels = pixels if pixels.mode == "L" else pixels.convert("RGB")
        if (least := min(pixels.size)) > side:
            width, height = (max(1, round(edge * side / least)) for edge in pixels.size)
            pixels = pixels.resize((width, height), Image.Resampling.BICUBIC)
        if turn in TURNS:
            pixels = pixels.transpose(TURNS[turn])
        file = io.BytesIO()
        if encoding == "jpeg":
            pixels.save(file, "JPEG", quality=quality, subsampling=0)
        else:
            pixels.save(file, "PPM")
        return file.getvalue()


def _copied(image: Image.Image) -> Image.Image:
    """Return a copy of an image in memory: decoding, turning and closing would change the caller's image."""
    _check_pixels(image)
    return image.copy()


def _check_pixels(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise Unreadable(f"has {image.width} x {image.height} pixels, more than the limit of {MOST_PIXELS:,}")


def _orientation(image: Image.Image) -> int:
    if image.format == "PNG":
        # Asked for metadata, Pillow decodes a PNG, and once that has failed it gives out the rest as black.
        image.load()
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged metadata of a sound picture
        return 1


def _as_stored(box: CropBox, turn: int, width: int, height: int) -> CropBox:
    """Return where a part of the image as shown lies in the image as stored: parts are cut before it is turned."""
    # EXIF: 5 to 8 are transposed; of those and the others, some are mirrored across and some upright.
    left, top, right, bottom = box if turn < 5 else (box[1], box[0], box[3], box[2])
    if turn in (2, 3, 7, 8):
        left, right = width - right, width - left
    if turn in (3, 4, 6, 7):
        top, bottom = height - bottom, height - top
    return left, top, right, bottom


def _eight_bits(image: Image.Image) -> Image.Image:
    """Convert any mode of Pillow's to L, RGB or one that converts to them; scale 16 bits, make transparency white."""
    if image.mode == "F":
        raise Unreadable("has floating-point pixels, which have no fixed range")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise Unreadable("has 32 bits per channel, but at most 16 are supported")
        # 65535 is 255 x 257; 128 rounds to the nearest.
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    if image.mode in ("L", "RGB"):
        image.load()
        return image
    return image.convert("RGB")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than the limit of {MOST_PIXELS:,} pixels"
    if isinstance(error, UnidentifiedImageError):
        return "it is no image of a known format"
    return str(error).partition("\n")[0][:100] or type(error).__name__


def answer(request: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the pixels of a request, [n, channels, size, size]; an error names the file."""
    paths, draws = request["paths"], request["draws"]
    rest = {key: request[key] for key in ("size", "channels", "margin", "smallest")}
    result = np.empty((len(paths), rest["channels"], rest["size"], rest["size"]), np.uint8)
    for row, path in enumerate(paths):
        try:
            result[row] = picture(path, draws=draws[row] if draws else None, **rest)
        except Unreadable as error:
            raise Unreadable(f"{path} {error}") from None
    return result


Examined = tuple[bool, str, list[int]]
"""Whether a file can be used, its fingerprint or why not, and its sums."""


def examined(paths: Sequence[str], size: int | None = None) -> list[Examined]:
    """Decode every file; there are sums of those that can be used, if a size is given."""
    found: list[Examined] = []
    for path in paths:
        try:
            found.append((True, *fingerprint(path, size)))
        except Unreadable as error:
            found.append((False, str(error), []))
    return found


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests, one JSON line each, until the other side closes: a worker cannot outlive its owner."""
    for line in requests:
        try:
            request = json.loads(line)
            if "examine" in request:
                sound, content = True, json.dumps(examined(request["examine"], request["size"])).encode()
            else:
                sound, content = True, answer(request).tobytes()
        except Exception as error:
            text = str(error) if isinstance(error, Unreadable) else f"a worker failed: {error!r}"
            sound, content = False, json.dumps(text).encode()
        replies.write(REPLY.pack(sound, len(content)))
        replies.write(content)
        replies.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
