"""`smallgroup train`."""

from pathlib import Path
from typing import Any

import typer

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json
from smallgroup.cli.train_display import TrainingDisplay
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import load
from smallgroup.phases.evaluation import TrainResult
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotypes import AnyGenotype

TRAINING = "training"
"""The folder of a training inside that of the search whose cell it trains."""


def run(genotype: str, wanted: Wanted, *, as_json: bool) -> None:
    """Train one cell."""
    wanted.check()
    _, cell = genotypes.resolve(genotype)
    of_search = Path(genotype) if (Path(genotype) / api.CONFIG).is_file() else None
    out = wanted.out or (of_search / TRAINING if of_search else None)
    result, folder = train(cell, wanted, out)
    if as_json:
        print_json({**result.to_dict(), "run": str(folder)})
    else:
        show(result, folder)


def base_of(genotype: str, *, recipe: str | None) -> dict[str, Any]:
    """What the config of a search says of a training: data, seed, and how, unless another recipe is named."""
    place = Path(genotype) / api.CONFIG
    if not place.is_file():
        return {}
    keys = load(place)
    kept = {"seed", "data", "run"} if recipe else {"seed", "data", "run", "recipe", "training"}
    return {key: value for key, value in keys.items() if key in kept}


def train(cell: AnyGenotype, wanted: Wanted, folder: Path | None, title: str = "") -> tuple[TrainResult, Path]:
    """Train a cell in a folder, and watch it."""
    config = wanted.resolved({"space": genotypes.space_of(cell)}, folder)
    folder = folder or next_folder("train", config.data.dataset)
    with TrainingDisplay(title=title) as display:
        finished = wanted.resume and TrainResult.read(folder) is not None
        if wanted.resume and not (folder / api.CONFIG).exists():
            display.say(f"there is nothing to resume in {folder}; a new run begins")
        result = api.train(
            cell, config, out=folder, resume=wanted.resume, allow_drift=wanted.allow_drift, watcher=display
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def show(result: TrainResult, folder: Path) -> None:
    """What came of it."""
    rows = [("test error %", _number(result.test_error)), ("test images", result.test_set)]
    if result.best_test_error is not None:
        rows.append(("best test error %", f"{_number(result.best_test_error)}, chosen by the test images themselves"))
    rows += [
        ("training error %", _number(result.train_error)),
        ("parameters", f"{result.parameters:,}"),
        ("multiply-adds", f"{result.multiply_adds:,}"),
        ("time", f"{written(result.seconds)}, {result.epochs} epochs, {result.steps:,} steps"),
    ]
    print_columns(rows)
    worst = sorted((result.class_errors or {}).items(), key=_by_error)[:3]
    if worst:
        typer.echo("hardest classes: " + ", ".join(f"{name} {error:.1f} %" for name, error in worst))
    typer.echo(f"everything is in {folder}")


def _by_error(entry: tuple[str, float]) -> float:
    return -entry[1]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
