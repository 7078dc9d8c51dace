"""`smallgroup run`: search, train from scratch, and a random cell beside it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from smallgroup.api import keys_for_training
from smallgroup.cli.durations import seconds_of, written
from smallgroup.cli.output import print_columns, print_json
from smallgroup.cli.search import search_one
from smallgroup.cli.train import chosen_cell, train
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.evaluation.limits import Limits
from smallgroup.phases.evaluation.load import TRAINING
from smallgroup.phases.search.result import SearchResult
from smallgroup.runtime import stream
from smallgroup.spaces.choices import random_genotype
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import AnyGenotype, space_of

SEARCH_SHARE = 0.6
"""The part of a time budget that goes to the search; the two trainings share the rest."""
RANDOM = "random"
"""The folder of the training of a random cell."""


def run(wanted: Wanted, limits: Limits, *, as_json: bool) -> None:
    """The whole job."""
    wanted.check()
    config = wanted.resolved({}, wanted.out)
    folder = wanted.out or next_folder(config.data.dataset, config.method_names)
    found, _ = search_one(_part(wanted, SEARCH_SHARE), folder, {}, "search")
    # The trainings have the config of the search below them: a resumed run need not be given it again.
    wanted = replace(_part(wanted, (1 - SEARCH_SHARE) / 2), base=keys_for_training(folder))
    cell, sentence = chosen_cell(folder, wanted, limits)
    if sentence:
        typer.echo(sentence, err=True)
    own, _ = train(cell, wanted, folder / TRAINING, "training")
    # Of the seed as all else: the same run has the same random cell.
    rival = random_genotype(space_of(cell), stream(found.seed, "random cell"))
    other, _ = train(rival, wanted, folder / RANDOM, "random cell")
    if as_json:
        results: dict[str, Any] = {"search": found, "training": own, "random": other}
        print_json({**{name: result.to_dict() for name, result in results.items()}, "run": str(folder)})
    else:
        _show(found, cell, own, other, folder)


def _part(wanted: Wanted, share: float) -> Wanted:
    """The same with a share of the time."""
    if wanted.time_budget is None:
        return wanted
    return replace(wanted, time_budget=f"{share * seconds_of(wanted.time_budget):.3f}s")


def _show(found: SearchResult, cell: AnyGenotype, own: TrainResult, other: TrainResult, folder: Path) -> None:
    typer.echo(f"learner {found.retained} was retained; its cell, trained from scratch:\n")
    typer.echo(draw(cell) + "\n")
    rows = [("", "test error %", "parameters", "multiply-adds", "training")]
    for name, result in ((f"learner {found.retained}", own), ("a random cell", other)):
        error = "none" if result.test_error is None else f"{result.test_error:.2f}"
        sizes = (f"{result.parameters:,}", f"{result.multiply_adds:,}")
        rows.append((name, error, *sizes, written(result.seconds)))
    print_columns(rows)
    typer.echo(
        f"\nThe random cell is of the same space and was trained the same way. Search: {written(found.seconds)}. "
        f"Everything is in {folder}"
    )
