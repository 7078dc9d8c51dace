"""The options of `predict`, `evaluate` and `export`."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.runtime.device_names import AUTO


def predict(
    run: options.Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE|FOLDER", help="Image files or folders of images.")],
    *,
    top: Annotated[
        int,
        typer.Option(
            parser=options.whole_number, metavar="N", help="Number of classes to print per image, most probable first."
        ),
    ] = 1,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write one line per image to this file instead of printing."),
    ] = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Classify image files with a trained model.

    Images are prepared like test images: the center, in the size, channels and scale of the model. In a folder, all
    images below it are classified, sorted by name. For a file that cannot be used, a line says why, the others are
    still classified, and the exit code is 1. For many images use --csv: it writes rows while it classifies and shows
    progress.
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

    It prints the error, the balanced error, the error of each class, the confusion matrix and the calibration error.
    Classes are matched by name: a class that the model does not know is an error, a class without images does not
    count. All images of a folder are used, or its test/ or val/ part if it has one; of other datasets, and of the data
    that the model was trained on, the test part.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_evaluate(run, data, data_root, device or AUTO)
    from smallgroup.cli.evaluate import run as carry_out  # noqa: PLC0415

    carry_out(run, data, data_root, skip_bad_images=skip_bad_images, device=device or AUTO, as_json=json)


def export(
    run: options.Model,
    *,
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
            help="Quantize to int8, calibrated on training images, and measure test error and size before and after.",
        ),
    ] = False,
    fine_tune: Annotated[
        int | None,
        typer.Option(
            "--fine-tune",
            parser=options.whole_number,
            metavar="EPOCHS",
            help="Before int8, continue the training for this number of epochs with numbers rounded as in int8. Use it "
            "if int8 costs more than a point.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write. The default is model.onnx or model.pt2 in the run."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Export a trained model to one file for other programs.

    The file contains classes, image size and normalization; a model card is written beside it. Before it is written,
    its outputs are compared with those of the trained model on random images. Our pt2 files contain no pickle, but
    loading an untrusted pt2 file can execute code.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_export(run, format_)
    from smallgroup.cli.export import run as carry_out  # noqa: PLC0415

    carry_out(run, format_, out, int8=int8, fine_tune=fine_tune, as_json=json)
