"""Carry out `smallgroup evaluate`: measure a model, print its errors."""

from pathlib import Path

from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.phases.training.evaluation import ModelEvaluation, evaluate
from smallgroup.runtime.device_names import AUTO
from smallgroup.statistics.calibration import BINS

MOST_COLUMNS = 12
"""Classes up to which the whole confusion matrix is printed; of more, the most frequent confusions are."""


def run(
    folder: Path, data: str, root: Path | None, *, skip_bad_images: bool, as_json: bool, device: str = AUTO
) -> None:
    """Measure a model, and print how well it does."""
    found = evaluate(folder, data, data_root=root, skip_bad_images=skip_bad_images, device=device)
    if as_json:
        print_json(found.to_dict())
    else:
        show(found)


def show(result: ModelEvaluation) -> None:
    """Print errors, error of each class, and confusions."""
    found, skipped = result.found, len(result.skipped)
    rows = [
        ("images", f"{result.images:,}, {result.part}"),
        ("error %", f"{found.error:.2f}"),
        ("balanced error %", f"{found.balanced_error:.2f}, the mean over the classes"),
        ("calibration error", f"{result.calibration_error:.2f} points, expected calibration error in {BINS} bins"),
        ("loss", f"{found.loss:.4f}"),
    ]
    if len(result.classes) > 5:
        rows.insert(2, ("top-5 error %", f"{found.error_top5:.2f}"))
    if skipped:
        rows.append(("images skipped", f"{skipped:,} that cannot be decoded"))
    print_columns(rows)
    say(*(f"note: {note}" for note in result.notes), "")
    errors = result.class_errors
    print_columns(
        [
            ("class", "images", "error %", "most often taken for"),
            *(
                (name, f"{images:,}", f"{error:.2f}", _taken_for(result, place))
                for place, (name, images) in enumerate(result.counts.items())
                if (error := errors[name]) is not None
            ),
        ]
    )
    if len(result.classes) <= MOST_COLUMNS:
        say("", "rows: the class of an image; columns: the class it was given")
        print_columns(
            [
                ("", *result.classes),
                *((name, *map(str, row)) for name, row in zip(result.classes, found.confusion, strict=True)),
            ]
        )


def _taken_for(result: ModelEvaluation, place: int) -> str:
    """Return the class that images of another class are most often given, and how many of them."""
    others = [(count, k) for k, count in enumerate(result.found.confusion[place]) if count and k != place]
    if not others:
        return ""
    count, k = max(others, key=lambda one: one[0])
    return f"{result.classes[k]} ({count:,})"
