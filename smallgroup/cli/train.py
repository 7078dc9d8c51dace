"""Carry out `smallgroup train`: run it, print errors and sizes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import CONFIG, keys_for_training
from smallgroup.controls import CONTROLS, TrainedArm, table_of, train_controls
from smallgroup.display.display import MEASURING
from smallgroup.display.training import TrainingDisplay
from smallgroup.phases.training import TrainResult
from smallgroup.phases.training.cells import AnyCell
from smallgroup.spaces import genotypes


def run(texts: list[str], wanted: Wanted, *, controls: bool, as_json: bool) -> None:
    """Train one cell, or several networks that teach one another."""
    wanted = replace(wanted, base=keys_for_training(texts[0], wanted.given()))
    result, folder = train([_place(text) for text in texts], wanted, wanted.out)
    arms: list[TrainedArm] = []
    if controls:
        arms = train_controls(
            folder,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            terse=False,
            recorders=wanted.recorders,
        )
    if as_json:
        beside = {"controls": [arm.to_dict() for arm in arms[1:]]} if arms else {}
        print_json({**result.to_dict(), **beside, "run": str(folder)})
    else:
        show(result, folder)
        show_controls(arms)


def _place(text: str) -> AnyCell:
    """Return the folder of a search, or a cell."""
    return Path(text) if (Path(text) / CONFIG).is_file() else genotypes.resolve(text)[1]


def train(named: list[AnyCell], wanted: Wanted, folder: Path | None, title: str = "") -> tuple[TrainResult, Path]:
    """Train a cell, or that of a search, or several, in a folder, and watch it."""
    first = named[0]
    cell = genotypes.read(Path(first) / genotypes.FILE, links=False)[0] if isinstance(first, str | Path) else first
    config = wanted.resolved({"space": cell.space}, folder)
    folder = folder or next_folder("train", config.data.dataset)
    with TrainingDisplay(title=title) as display:
        finished = wanted.resume and TrainResult.read(folder) is not None
        wanted.check_begun(folder, display.say)
        recorders = wanted.recorders(folder)
        result = api.train(
            named,
            config,
            out=folder,
            seconds=wanted.seconds,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            watcher=display,
            recorders=recorders,
            measuring=lambda: display.say(MEASURING),
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def show(result: TrainResult, folder: Path) -> None:
    """Print the result of a training."""
    rows = [("test error %", _number(result.test_error)), ("test images", result.test_set)]
    if result.balanced_error is not None:
        rows.insert(1, ("balanced error %", f"{_number(result.balanced_error)}, the mean over the classes"))
    if result.skipped_images:
        rows.append(("images skipped", f"{result.skipped_images:,} that cannot be decoded; facts.json names them"))
    if result.best_test_error is not None:
        rows.append(("best test error %", f"{_number(result.best_test_error)}, chosen by the test images themselves"))
    rows += [
        ("training error %", _number(result.train_error)),
        ("parameters", f"{result.parameters:,}"),
        ("multiply-adds", f"{result.multiply_adds:,}"),
        ("time", f"{written(result.seconds)}, {result.epochs} epochs, {result.steps:,} steps"),
    ]
    print_columns(rows)
    _show_group(result)
    if result.choice:
        say(result.choice)
    worst = sorted((result.class_errors or {}).items(), key=_by_error)[:3]
    if worst:
        say("hardest classes: " + ", ".join(f"{name} {error:.1f} %" for name, error in worst))
    say(f"everything is in {folder}")


def _show_group(result: TrainResult) -> None:
    """Print every network of a group, and which one was kept."""
    if result.group is None:
        return
    rows = [("network", "validation loss", "validation error %", "test error %", "parameters", "")]
    for k, one in enumerate(result.group):
        errors = (_number(one["validation_error"]), _number(one["test_error"]), f"{one['parameters']:,}")
        loss = "none" if one["validation_loss"] is None else f"{one['validation_loss']:.4f}"
        rows.append((str(k), loss, *errors, "kept: lowest validation loss" if k == result.retained else ""))
    say("")
    print_columns(rows)
    say("")


def show_controls(arms: Sequence[TrainedArm]) -> None:
    """Print the group and its controls side by side; nothing if there are none."""
    if not arms:
        return
    say("")
    print_columns(table_of(arms))
    say(*(f"{name}: {words}" for name, words in CONTROLS.items()))
    say(
        "passes: forward passes of an image, a backward pass counted as two. Differences are in points of test error "
        "on the same images, with 95 % intervals over the images. They do not include "
        "the spread between seeds: this is one seed."
    )


def _by_error(entry: tuple[str, float]) -> float:
    return -entry[1]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
