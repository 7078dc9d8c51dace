"""`smallgroup predict`."""

from pathlib import Path

import typer

from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.phases.training.predict import Prediction, predict


def run(folder: Path, images: list[str], top: int, *, as_json: bool) -> None:
    """Every image is classified before anything is printed; what cannot be used has a line, and the exit code is 1."""
    predictions = predict(folder, images, top=top)
    if as_json:
        print_json([_plain(prediction) for prediction in predictions])
    else:
        print_columns(row for prediction in predictions for row in _rows(prediction))
    failed = sum(prediction.problem is not None for prediction in predictions)
    if failed:
        say(f"error: {failed} of {len(predictions)} images cannot be classified", err=True)
        raise typer.Exit(1)


def _plain(prediction: Prediction) -> dict[str, object]:
    """What `--json` prints about one image."""
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
    """A line for every class, the image's name on the first."""
    if prediction.problem is not None:
        return [(prediction.image, prediction.problem, "")]
    return [
        ("" if place else prediction.image, guess.name, f"{100 * guess.probability:6.2f} %")
        for place, guess in enumerate(prediction.guesses)
    ]
