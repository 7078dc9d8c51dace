"""Draw a folder of small gray pictures of clothes in ten classes that overlap: data that no search was tuned on.

`python -m smallgroup.bench.outcome.clothing FOLDER` writes `train/CLASS/*.png` and `val/CLASS/*.png`. A picture is a
function of the seed, its part, class and number: the same seed gives the same pixels on the same Pillow and torch.
`--size 96` gives larger ones.

Classes overlap on purpose. Sleeves of shirts are as long as those of T-shirts or pullovers, some coats are short, some
sandals have few gaps, some boots a low shaft. Light, grain, blur and a square over a part of the picture do the rest: a
plain convolutional network (three layers, AdamW) erred on 19 % of the test pictures after a minute of training.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from smallgroup.places import check_empty
from smallgroup.runtime import stream

SIZE, LARGE = 28, 112
"""Pixels of a picture, and of the larger one that it is drawn on and reduced from."""
MIDDLE = LARGE / 2
INKS = (110, 250)
"""From the darkest to the brightest piece of clothing; the ground is black."""
TRAIN, TEST = 300, 200
"""Pictures of a class, unless others are asked for."""
COVERED_SHARE, COVER = 0.3, 6
"""How many pictures have a square over a part of them, and its side in a picture of 28 pixels."""

OutlinePoint = tuple[float, float]
Gray = NDArray[np.uint8]


class ClothingDraws:
    """The random numbers of one picture."""

    def __init__(self, *key: int | str) -> None:
        self._generator = stream("clothing", *key)

    def near(self, mean: float, deviation: float) -> float:
        """Draw a number from a normal distribution."""
        return mean + deviation * float(self.noise(1)[0])

    def length(self, mean: float, deviation: float) -> float:
        """Draw a length that may be close to zero and is not negative."""
        return abs(self.near(mean, deviation))

    def between(self, least: float, most: float) -> float:
        """Draw a number, all between two limits equally likely."""
        return least + (most - least) * float(torch.rand(1, generator=self._generator, dtype=torch.float64))

    def whole(self, least: int, end: int) -> int:
        """Draw a whole number below `end`."""
        return int(torch.randint(least, end, (1,), generator=self._generator))

    def chance(self, share: float) -> bool:
        """Decide whether a part is there."""
        return self.between(0, 1) < share

    def noise(self, *shape: int) -> NDArray[np.float64]:
        """Draw independent numbers of mean 0 and deviation 1."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64).numpy()


@dataclass
class Sheet:
    """A black picture, an ink, and the random numbers of both."""

    pen: ImageDraw.ImageDraw
    draws: ClothingDraws
    ink: int

    def darker(self, least: int, most: int) -> int:
        """Draw a shade below the ink."""
        return max(0, self.ink - self.draws.whole(least, most))

    def fill(self, points: Sequence[OutlinePoint], shade: int | None = None) -> None:
        """Fill a polygon, with the ink unless a shade is given."""
        self.pen.polygon(list(points), fill=self.ink if shade is None else shade)

    def line(self, start: OutlinePoint, end: OutlinePoint, shade: int, width: int) -> None:
        """Draw a seam, a stripe or a strap."""
        self.pen.line([start, end], fill=shade, width=width)


@dataclass(frozen=True)
class Top:
    """A piece of clothing with shoulders; lengths in pixels of the large picture, each a mean and a deviation."""

    sleeve: OutlinePoint
    length: OutlinePoint
    width: OutlinePoint = (1.0, 0.1)
    opening: float = 0.1
    """How many have a line from neck to hem."""
    collar: float = 0.2
    flare: OutlinePoint = (0.0, 0.0)
    """The width of the hem minus that of the waist."""

    def draw(self, sheet: Sheet) -> None:
        """Draw body, sleeves, opening, neck and sometimes stripes."""
        sleeve, length, width = (
            sheet.draws.length(*self.sleeve),
            sheet.draws.near(*self.length),
            sheet.draws.near(*self.width),
        )
        flare = sheet.draws.length(*self.flare)
        shoulder, waist = sheet.draws.near(16, 1.5) * width, sheet.draws.near(15, 1.5) * width
        top = sheet.draws.near(24, 2)
        bottom, hem = top + length, waist * (1 + flare)
        right = [(6.0, top - 3), (shoulder, top), (waist, top + 18), (hem, bottom)]
        sheet.fill(_mirrored(right))
        self._draw_sleeves(sheet, shoulder, top, sleeve)
        dark = sheet.darker(40, 110)
        if sheet.draws.chance(self.opening):
            end = (MIDDLE + sheet.draws.near(0, 1), bottom)
            sheet.line((MIDDLE, top - 2), end, dark, sheet.draws.whole(1, 4))
        self._draw_neck(sheet, top, dark)
        if sheet.draws.chance(0.25):
            for y in range(int(top) + 8, int(bottom), sheet.draws.whole(6, 14)):
                sheet.line((MIDDLE - waist, y), (MIDDLE + waist, y), dark, 2)

    @staticmethod
    def _draw_sleeves(sheet: Sheet, shoulder: float, top: float, length: float) -> None:
        angle, wide = sheet.draws.near(0.35, 0.12), sheet.draws.near(9, 1)
        out, down = length * math.sin(angle) + 2, top + length * math.cos(angle)
        for side in (-1, 1):
            start = MIDDLE + side * shoulder
            end = start + side * out
            sheet.fill(
                [
                    (start - side * 4, top),
                    (start + side * 2, top + 2),
                    (end + side * wide * 0.3, down),
                    (end - side * wide * 0.8, down + 2),
                    (start - side * wide, top + 16),
                ]
            )

    def _draw_neck(self, sheet: Sheet, top: float, dark: int) -> None:
        """Draw a collar, or a neckline, or nothing."""
        if sheet.draws.chance(self.collar):
            sheet.fill([(MIDDLE - 7, top - 4), (MIDDLE, top + sheet.draws.near(9, 2)), (MIDDLE + 7, top - 4)], dark)
        elif sheet.draws.chance(0.7):
            low = max(top - 8, top + sheet.draws.near(2, 2))
            sheet.pen.ellipse((MIDDLE - 6, top - 8, MIDDLE + 6, low), fill=0)


@dataclass(frozen=True)
class Shoe:
    """A shoe from its side, toes to the right; lengths as of a `Top`."""

    shaft: OutlinePoint
    heel: OutlinePoint
    sole: OutlinePoint
    gaps: tuple[int, int] = (0, 1)
    """Openings between straps: at least the first, fewer than the second."""
    more_gaps: float = 0.0
    """How many have one gap more."""

    def draw(self, sheet: Sheet) -> None:
        """Draw upper, sole, heel, gaps and sometimes a strap."""
        shaft, heel, sole = (
            sheet.draws.length(*self.shaft),
            sheet.draws.length(*self.heel),
            sheet.draws.length(*self.sole),
        )
        gaps = sheet.draws.whole(*self.gaps) + sheet.draws.chance(self.more_gaps)
        floor, half, toe = sheet.draws.near(80, 3), sheet.draws.near(30, 3), sheet.draws.near(10, 2)
        back, front = MIDDLE - half, MIDDLE + half
        rim = floor - shaft - 10
        upper = [(back, floor), (back, rim), (back + sheet.draws.near(18, 2), rim), (back + 22, floor - 16)]
        upper += [(front - 8, floor - toe - 3), (front, floor - toe * 0.4), (front, floor)]
        sheet.fill(upper)
        sheet.pen.rectangle((back, floor, front, floor + sole), fill=sheet.darker(0, 100))
        if heel > 1:
            sheet.fill([(back, floor), (back + 8, floor), (back + 5, floor + heel), (back, floor + heel)])
        for _ in range(gaps):
            x = back + sheet.draws.between(8, 2 * half - 10)
            tip = (x + sheet.draws.near(7, 2), floor - sheet.draws.near(20, 4))
            sheet.fill([(x, floor - 3), tip, (x + sheet.draws.near(12, 2), floor - 3)], 0)
        if sheet.draws.chance(0.4):
            sheet.line((MIDDLE - 5, floor - 20), (MIDDLE + 8, floor - 8), max(0, sheet.ink - 80), 2)


def _draw_trousers(sheet: Sheet) -> None:
    top, half = sheet.draws.near(18, 2), sheet.draws.near(13, 2)
    bottom = top + sheet.draws.near(74, 5)
    gap, leg = sheet.draws.length(4, 2), sheet.draws.near(8, 1.2)
    outer, inner = half + 2, half + 2 - leg
    crotch = [(MIDDLE + gap / 2, top + sheet.draws.near(24, 4)), (MIDDLE - gap / 2, top + 24)]
    right = [(MIDDLE + half, top), (MIDDLE + outer, bottom), (MIDDLE + inner, bottom)]
    left = [(MIDDLE - inner, bottom), (MIDDLE - outer, bottom)]
    sheet.fill([(MIDDLE - half, top), *right, *crotch, *left])


def _draw_bag(sheet: Sheet) -> None:
    half, top = sheet.draws.near(30, 5), sheet.draws.near(48, 5)
    bottom, above = top + sheet.draws.near(36, 6), half * sheet.draws.near(1, 0.08)
    sheet.fill([(MIDDLE - above, top), (MIDDLE + above, top), (MIDDLE + half, bottom), (MIDDLE - half, bottom)])
    handle, wide = sheet.draws.length(20, 7), sheet.draws.whole(2, 6)
    place = (MIDDLE - half * 0.6, top - handle, MIDDLE + half * 0.6, top + handle)
    sheet.pen.arc(place, 180, 360, fill=sheet.ink, width=wide)
    if sheet.draws.chance(0.5):
        sheet.line((MIDDLE - half, top + 10), (MIDDLE + half, top + 10), max(0, sheet.ink - 70), 2)


DRAWN: dict[str, Callable[[Sheet], None]] = {
    "bag": _draw_bag,
    "boot": Shoe(shaft=(26, 12), heel=(5, 4), sole=(4, 2)).draw,
    "coat": Top(sleeve=(50, 6), length=(66, 6), width=(1.08, 0.1), opening=0.75, collar=0.5, flare=(0.08, 0.06)).draw,
    "dress": Top(sleeve=(10, 11), length=(70, 6), width=(0.78, 0.1), flare=(0.35, 0.25)).draw,
    "pullover": Top(sleeve=(47, 7), length=(56, 5), width=(1.08, 0.1)).draw,
    "sandal": Shoe(shaft=(3, 6), heel=(5, 5), sole=(3, 1.5), gaps=(1, 5)).draw,
    "shirt": Top(sleeve=(34, 14), length=(60, 6), opening=0.55, collar=0.6).draw,
    "sneaker": Shoe(shaft=(5, 5), heel=(0, 0), sole=(6, 2), more_gaps=0.15).draw,
    "t-shirt": Top(sleeve=(19, 6), length=(56, 5), collar=0.15).draw,
    "trousers": _draw_trousers,
}
"""The function that draws each class."""
CLASSES = tuple(DRAWN)


def draw_picture(name: str, number: int, *, part: str = "train", seed: int = 0, size: int = SIZE) -> Gray:
    """Return [size, size] gray pixels of a class."""
    draws = ClothingDraws(seed, part, name, number)
    picture = Image.new("L", (LARGE, LARGE))
    sheet = Sheet(ImageDraw.Draw(picture), draws, draws.whole(*INKS))
    DRAWN[name](sheet)
    picture = _placed(picture, draws).filter(ImageFilter.GaussianBlur(draws.length(1.5, 1.2)))
    reduced = picture.resize((size, size), Image.Resampling.BOX)
    return _photographed(np.asarray(reduced, dtype=np.float64), draws)


def write_folder(folder: Path, *, seed: int = 0, train: int = TRAIN, test: int = TEST, size: int = SIZE) -> None:
    """Write so many pictures of each class to a folder that is new or empty."""
    check_empty(folder, "a data set")
    for part, count in (("train", train), ("val", test)):
        for name in CLASSES:
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                drawn = draw_picture(name, number, part=part, seed=seed, size=size)
                Image.fromarray(drawn).save(place / f"{number:04d}.png")


def _mirrored(right: Sequence[OutlinePoint]) -> list[OutlinePoint]:
    """Return the outline whose right half, as distances from the middle, is given from top to bottom."""
    left = [(MIDDLE - x, y) for x, y in right]
    return [*left[1::-1], *((MIDDLE + x, y) for x, y in right), *left[:1:-1]]


def _placed(picture: Image.Image, draws: ClothingDraws) -> Image.Image:
    """Turn, shear, scale and move the picture around its middle."""
    angle, scale = draws.near(0, 0.11), draws.near(1, 0.09)
    wide, shear = scale * draws.near(1, 0.06), draws.near(0, 0.08)
    cosine, sine = math.cos(angle), math.sin(angle)
    matrix = np.array([[cosine / wide, (sine + shear) / scale], [-sine / wide, cosine / scale]])
    middle = np.array([MIDDLE, MIDDLE])
    x, y = middle - matrix @ (middle + 5 * draws.noise(2))
    data = (matrix[0, 0], matrix[0, 1], x, matrix[1, 0], matrix[1, 1], y)
    return picture.transform((LARGE, LARGE), Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)


def _photographed(pixels: NDArray[np.float64], draws: ClothingDraws) -> Gray:
    """Add uneven light, folds, grain, a gray ground, and sometimes a square over a part."""
    size = len(pixels)
    down, right = np.mgrid[0:size, 0:size] / size - 0.5
    pixels = pixels * (1 + draws.near(0, 0.35) * right + draws.near(0, 0.35) * down)
    coarse = Image.fromarray(draws.noise(7, 7).astype(np.float32))
    folds = np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC))
    pixels = pixels * (1 + draws.near(0, 0.18) * folds)
    pixels = pixels + draws.length(0, 9) * draws.noise(size, size) + draws.length(0, 14)
    if draws.chance(COVERED_SHARE):
        cover = COVER * size // SIZE
        x, y = draws.whole(0, size - cover), draws.whole(0, size - cover)
        pixels[y : y + cover, x : x + cover] = draws.whole(0, 255)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m smallgroup.bench.outcome.clothing", description=__doc__)
    parser.add_argument("folder", type=Path, help="new or empty")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=int, default=TRAIN, help="training pictures of each class")
    parser.add_argument("--test", type=int, default=TEST, help="test pictures of each class")
    parser.add_argument("--size", type=int, default=SIZE, help=f"height and width, {COVER} to {LARGE} pixels")
    given = parser.parse_args(arguments)
    if given.train < 1 or given.test < 1:
        parser.error("--train and --test must be at least 1")
    if not COVER <= given.size <= LARGE:
        parser.error(f"--size must be {COVER} to {LARGE}, but got {given.size}")
    try:
        write_folder(given.folder, seed=given.seed, train=given.train, test=given.test, size=given.size)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
