"""Carry out `smallgroup predict`: classify images, print or write the classes."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.display.counting import counted
from smallgroup.phases.training.predict import Prediction, Queue
from smallgroup.runtime.device_names import AUTO
from smallgroup.runtime.files import writing_whole
from smallgroup.runtime.text import escape_csv


def run(
    folder: Path, images: list[str], top: int, device: str = AUTO, *, as_json: bool, table: Path | None = None
) -> None:
    """Classify every image; what cannot be used has a line, and the exit code is 1.

    Without a table every image is classified before anything is printed.
    """
    queue = Queue(folder, images, top, device)
    if table is not None:
        failed = _write_table(table, queue)
        say(f"{len(queue):,} images are in {table}")
    else:
        predictions = list(queue)
        if as_json:
            print_json([_plain(prediction) for prediction in predictions])
        else:
            print_columns(row for prediction in predictions for row in _rows(prediction))
        failed = sum(prediction.problem is not None for prediction in predictions)
    if failed:
        say(f"error: {failed} of {len(queue)} images cannot be classified", err=True)
        raise typer.Exit(1)


def _write_table(path: Path, queue: Queue) -> int:
    """Write a line of CSV for every image as it is classified; return how many cannot be.

    The file is there once all of it is.
    """
    failed = 0
    with writing_whole(path) as file:
        for prediction, line in _lines(counted(queue, len(queue), "images classified"), queue.top):
            failed += prediction.problem is not None
            file.write(line)
    return failed


def _lines(predictions: Iterable[Prediction], top: int) -> Iterator[tuple[Prediction, bytes]]:
    """Yield predictions, each with its line of CSV; the first one also has the titles."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    endings = ["", *(f"_{place}" for place in range(2, top + 1))]
    writer.writerow(["image", *(f"{title}{end}" for end in endings for title in ("class", "probability")), "problem"])
    for prediction in predictions:
        cells = [cell for guess in prediction.guesses for cell in (escape_csv(guess.name), repr(guess.probability))]
        cells += [""] * (2 * top - len(cells))  # fewer classes than were asked for, or none
        writer.writerow([escape_csv(prediction.image), *cells, escape_csv(prediction.problem or "")])
        yield prediction, out.getvalue().encode()
        out.seek(0)
        out.truncate()


def _plain(prediction: Prediction) -> dict[str, object]:
    """Return what `--json` prints about one image."""
    if prediction.problem is not None:
        return {"image": prediction.image, "error": prediction.problem}
    first = prediction.guesses[0]
    return {
        "image": prediction.image,
        "class": first.name,
        "probability": first.probability,
        "top": [{"class": guess.name, "probability": guess.probability} for guess in prediction.guesses],
    }


def _rows(prediction: Prediction) -> list[tuple[str, str, str]]:
    """Return a line for every class, the image's name on the first."""
    if prediction.problem is not None:
        return [(prediction.image, prediction.problem, "")]
    return [
        ("" if place else prediction.image, guess.name, f"{100 * guess.probability:6.2f} %")
        for place, guess in enumerate(prediction.guesses)
    ]
