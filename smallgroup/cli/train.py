"""`smallgroup train`."""

from dataclasses import replace
from pathlib import Path

import typer

from smallgroup import api
from smallgroup.cli.display import MEASURING, Display
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json
from smallgroup.cli.train_display import TrainingDisplay
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.data.training_data import open_training_data
from smallgroup.networks import NetworkDesign
from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.evaluation.limits import Limits, choose, read_architectures
from smallgroup.phases.evaluation.load import TRAINING
from smallgroup.phases.search.result import ARCHITECTURES, SearchResult
from smallgroup.runner.runner import CHECKPOINTS
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotypes import AnyGenotype


def run(genotype: str, wanted: Wanted, limits: Limits, *, as_json: bool) -> None:
    """Train one cell."""
    of_search = Path(genotype) if (Path(genotype) / api.CONFIG).is_file() else None
    if of_search is not None and wanted.out is None:
        wanted = replace(wanted, out=of_search / TRAINING)
    wanted.check()
    if of_search is None:
        if limits:
            raise ValueError(f"a limit chooses among the cells of a search, but {genotype[:80]!r} is none")
        cell = genotypes.resolve(genotype)[1]
    else:
        cell, sentence = chosen_cell(of_search, wanted, limits)
        if sentence:
            typer.echo(sentence, err=True)
    result, folder = train(cell, wanted, wanted.out)
    if as_json:
        print_json({**result.to_dict(), "run": str(folder)})
    else:
        show(result, folder)


def chosen_cell(run: Path, wanted: Wanted, limits: Limits) -> tuple[AnyGenotype, str]:
    """The cell of a search that is trained: the retained one, or one that fits, and what is to be said of that."""
    cell = genotypes.read(run / genotypes.FILE)[0]
    if not limits:
        return cell, ""
    result = SearchResult.read(run)
    if result is None:
        raise ValueError(f"a limit chooses among the cells of a finished search, but there is no result in {run}")
    config = wanted.resolved({"space": genotypes.space_of(cell)})
    dataset = open_training_data(config.data, config.training.augmentation).dataset

    def design(genotype: AnyGenotype) -> NetworkDesign:
        return config.training.network.design(
            classes=len(dataset.classes),
            image_channels=dataset.channels,
            image_size=dataset.size,
            space=genotypes.space_of(genotype),
        )

    choice = choose(read_architectures(run / ARCHITECTURES), result.retained, limits, design)
    return choice.genotype, choice.sentence


def train(cell: AnyGenotype, wanted: Wanted, folder: Path | None, title: str = "") -> tuple[TrainResult, Path]:
    """Train a cell in a folder, and watch it."""
    config = wanted.resolved({"space": genotypes.space_of(cell)}, folder)
    folder = folder or next_folder("train", config.data.dataset)
    with TrainingDisplay(title=title) as display:
        finished = wanted.resume and TrainResult.read(folder) is not None
        say_if_new(display, wanted, folder)
        if wanted.time_budget is not None:
            display.say(MEASURING)
            config = api.training_within(config, cell, wanted.time_left())
        result = api.train(
            cell, config, out=folder, resume=wanted.resume, allow_drift=wanted.allow_drift, watcher=display
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def say_if_new(display: Display, wanted: Wanted, folder: Path) -> None:
    """Who resumes a run should know that there is none."""
    if wanted.resume and not (folder / api.CONFIG).exists() and not (folder / CHECKPOINTS).exists():
        display.say(f"there is nothing to resume in {folder}; a new run begins")


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
