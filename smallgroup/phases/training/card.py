"""The model card beside an export: a page on what the model is and how well it does."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from smallgroup.phases.training.model import TrainedModel
from smallgroup.phases.training.result import TrainResult
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.text import escape_markdown, shown
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.version import __version__

MOST_CLASSES = 100
"""Names that are listed; all of them are in the export itself."""


def write_card(
    path: Path,
    name: str,
    network: DerivedNetwork,
    model: TrainedModel,
    *,
    result: TrainResult | None,
    rows: Sequence[tuple[str, str]],
) -> None:
    """Write the card of the export `name`; `rows` are about the file, and without a result errors are not known."""
    images = model.design.images
    adds = multiply_adds(network, images.size, images.channels)
    versions = f"smallgroup {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    about = [
        ("data", escaped(model.dataset)),
        ("images", f"{images.size} x {images.size} pixels, {images.channels} channel{'s' * (images.channels > 1)}"),
        ("normalization", f"mean {_numbers(model.mean)}, std {_numbers(model.std)}, of pixels / 255"),
        ("parameters", f"{parameters(network):,}"),
        ("multiply-adds", f"{adds:,} for one image, of convolutions and linear layers"),
        *_errors(result),
        *rows,
        ("written", f"{datetime.now(UTC).date().isoformat()} by {escaped(versions)}"),
    ]
    names = [escaped(each) for each in model.classes[:MOST_CLASSES]]
    rest = len(model.classes) - len(names)
    lines = [
        f"# Model card of {escaped(name)}",
        "",
        f"A network around a cell of the {model.genotype.space} space that sorts images into "
        f"{len(model.classes):,} classes.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {left} | {right} |" for left, right in about),
        "",
        "## Classes",
        "",
        "| logit | class |",
        "|---|---|",
        *(f"| {number} | {each} |" for number, each in enumerate(names)),
        *([f"| ... | and {rest:,} more, which the file names |"] if rest else []),
        "",
        "## Cell",
        "",
        "```text",
        draw(model.genotype),
        "```",
    ]
    write_whole(path, "\n".join(lines) + "\n")


def _errors(result: TrainResult | None) -> list[tuple[str, str]]:
    """Return every error with how the test images were used: an error that was chosen by them is no estimate."""
    if result is None:
        return [("errors", "not known: result.json is missing or cannot be read")]
    rows = [("training", f"{_count(result.epochs)} epochs, {_count(result.steps)} steps, seed {_count(result.seed)}")]
    if result.test_error is None:
        return [*rows, ("test error", "not known: the data has no test part")]
    rows += [
        ("test error", f"{_percent(result.test_error)}; test images were {escaped(result.test_set)}"),
        ("test error, top 5", _percent(result.test_error_top5)),
    ]
    if result.best_test_error is not None:
        chosen = "the lowest of all epochs, chosen by the test images themselves: too low an estimate"
        rows.append(("best test error", f"{_percent(result.best_test_error)}; {chosen}"))
    return rows


def escaped(foreign: object) -> str:
    """Return a foreign text for a line or a cell of the card."""
    return escape_markdown(shown(foreign)) or "(empty)"


# A result is a file, too, and may hold anything where a number should be.


def _percent(value: object) -> str:
    return f"{value:.2f} %" if isinstance(value, int | float) else escaped(value)


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escaped(value)


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
