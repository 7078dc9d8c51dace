"""The command `smallgroup shards` and its options; the work is imported when it is called."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options


def shards(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="One sub-folder of images per class, or train/ with test/ or val/ of those."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the shards.")],
    side: Annotated[
        int,
        typer.Option(
            parser=options.whole_number,
            metavar="PIXELS",
            help="Short side of the stored images; smaller images keep their size.",
        ),
    ] = 256,
    encoding: Annotated[
        str,
        typer.Option(
            metavar="jpeg|ppm",
            help="Format of the stored images; ppm is not compressed: exact, faster to read, several times as large.",
        ),
    ] = "jpeg",
    quality: Annotated[
        int, typer.Option(parser=options.whole_number, metavar="1-100", help="Quality of JPEG images.")
    ] = 92,
    skip_bad_images: options.SkipBadImages = False,
    json: options.Json = False,
) -> None:
    """Resize images once, and pack them into a few large files.

    Use the new folder in place of the original: as --dataset folder:DIR, or under the name imagenet in the data root.
    An index finds every image by its number, so that runs shuffle and resume as on the original. DIR appears once all
    images are written.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_shards(folder, out, encoding)
    from smallgroup.cli.shards import run as carry_out  # noqa: PLC0415

    carry_out(folder, out, side, encoding, quality, skip_bad=skip_bad_images, as_json=json)
