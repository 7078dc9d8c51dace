"""`smallgroup train`."""

from dataclasses import replace
from pathlib import Path

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import CONFIG, keys_for_training
from smallgroup.display.display import MEASURING
from smallgroup.display.training import TrainingDisplay
from smallgroup.fitting import training_within
from smallgroup.phases.training import TrainResult
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotype import Genotype


def run(genotype: str, wanted: Wanted, *, as_json: bool) -> None:
    """Train one cell."""
    folder = Path(genotype)
    place = folder if (folder / CONFIG).is_file() else genotypes.resolve(genotype)[1]
    wanted = replace(wanted, base=keys_for_training(genotype, wanted.given()))
    result, folder = train(place, wanted, wanted.out)
    if as_json:
        print_json({**result.to_dict(), "run": str(folder)})
    else:
        show(result, folder)


def train(genotype: Genotype | Path, wanted: Wanted, folder: Path | None, title: str = "") -> tuple[TrainResult, Path]:
    """Train a cell, or that of a search, in a folder, and watch it."""
    cell = genotypes.read(genotype / genotypes.FILE, links=False)[0] if isinstance(genotype, Path) else genotype
    config = wanted.resolved({"space": cell.space}, folder)
    folder = folder or next_folder("train", config.data.dataset)
    with TrainingDisplay(title=title) as display:
        finished = wanted.resume and TrainResult.read(folder) is not None
        wanted.check_begun(folder, display.say)
        recorders = wanted.recorders(folder)
        if wanted.time_budget is not None:
            api.check_place(folder, config, resume=wanted.resume)  # before its steps are measured
            display.say(MEASURING)
            config = training_within(config, cell, wanted.budget())
        result = api.train(
            genotype,
            config,
            out=folder,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            watcher=display,
            recorders=recorders,
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def show(result: TrainResult, folder: Path) -> None:
    """What came of it."""
    rows = [("test error %", _number(result.test_error)), ("test images", result.test_set)]
    if result.balanced_error is not None:
        rows.insert(1, ("balanced error %", f"{_number(result.balanced_error)}, the mean over the classes"))
    if result.skipped_images:
        rows.append(("images left out", f"{result.skipped_images:,} that cannot be decoded; facts.json names them"))
    if result.best_test_error is not None:
        rows.append(("best test error %", f"{_number(result.best_test_error)}, chosen by the test images themselves"))
    rows += [
        ("training error %", _number(result.train_error)),
        ("parameters", f"{result.parameters:,}"),
        ("multiply-adds", f"{result.multiply_adds:,}"),
        ("time", f"{written(result.seconds)}, {result.epochs} epochs, {result.steps:,} steps"),
    ]
    print_columns(rows)
    if result.choice:
        say(result.choice)
    worst = sorted((result.class_errors or {}).items(), key=_by_error)[:3]
    if worst:
        say("hardest classes: " + ", ".join(f"{name} {error:.1f} %" for name, error in worst))
    say(f"everything is in {folder}")


def _by_error(entry: tuple[str, float]) -> float:
    return -entry[1]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
