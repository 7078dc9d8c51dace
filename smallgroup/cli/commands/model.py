"""The options of `predict`, `evaluate` and `export`."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.runtime.device_names import AUTO


def predict(
    run: options.Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE|FOLDER", help="Image files, and folders of them.")],
    *,
    top: Annotated[
        int,
        typer.Option(parser=options.whole_number, metavar="N", help="How many classes per image, the likeliest first."),
    ] = 1,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write a line per image into this file instead of printing them."),
    ] = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Classify image files with a trained model.

    An image is seen as test images are: its centre, in the size, channels and scale of the model. Of a folder, all
    images below it are classified, sorted by name. A file that cannot be used gets a line that says why; the others
    are classified all the same, and the exit code is 1. For many images use --csv: the table is written as they are
    classified, and progress is shown.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_predict(run, top, csv, device or AUTO, as_json=json)
    from smallgroup.cli.predict import run as carry_out  # noqa: PLC0415

    carry_out(run, images, top, device or AUTO, as_json=json, table=csv)


def evaluate(
    run: options.Model,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Labeled images: folder:PATH or another of `smallgroup list datasets`."),
    ],
    *,
    data_root: options.DataRoot = None,
    skip_bad_images: options.SkipBadImages = False,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Measure a trained model on labeled images.

    Prints the error, the balanced error, the error on each class, the confusion matrix and the calibration error.
    Classes are matched by name: one that the model does not know is an error, one without images does not count. All
    images of a folder are classified; of a folder with test/ or val/ that part, of other data and of the data that the
    model was trained on the test part.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_evaluate(run, data, data_root, device or AUTO)
    from smallgroup.cli.evaluate import run as carry_out  # noqa: PLC0415

    carry_out(run, data, data_root, skip_bad_images=skip_bad_images, device=device or AUTO, as_json=json)


def export(
    run: options.Model,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="onnx|pt2",
            help="ONNX (needs `pip install 'smallgroup[onnx]'`), torch.export, or one of `smallgroup list exporters`.",
        ),
    ] = "onnx",
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="Quantize to int8, calibrated on training images; test error and size before and after are measured.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file. The default is model.onnx or model.pt2 in the run.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a trained model as one file for other programs.

    A model card is written beside it. Classes, image size and normalisation stand inside the file. It is compared with
    the trained model on random images before it is written. A pt2 file of ours has no pickle in it; loading one of a
    stranger can run code.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_export(run, format_)
    from smallgroup.cli.export import run as carry_out  # noqa: PLC0415

    carry_out(run, format_, out, int8=int8, as_json=json)
