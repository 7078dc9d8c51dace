"""`smallgroup run`: search, train from scratch, and a random cell beside it."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from smallgroup import api
from smallgroup.cli.durations import seconds_of, written
from smallgroup.cli.output import print_columns, print_json
from smallgroup.cli.search import search_one
from smallgroup.cli.train import train
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.evaluation.limits import TooLargeError
from smallgroup.phases.evaluation.load import TRAINING
from smallgroup.phases.search.result import SearchResult
from smallgroup.runtime import stream
from smallgroup.spaces.choices import random_genotype
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import AnyGenotype, from_plain

SEARCH_SHARE = 0.6
"""The part of a time budget that goes to the search; the two trainings share the rest."""
DRAWS = 50
"""Random cells that are drawn before none is thought to be small enough."""
RANDOM = "random"
"""The folder of the training of a random cell."""


def run(wanted: Wanted, *, as_json: bool) -> None:
    """The whole job."""
    wanted.check()
    config = wanted.resolved({}, wanted.out)
    folder = wanted.out or next_folder(config.data.dataset, config.method_names)
    found, _ = search_one(_part(wanted, SEARCH_SHARE), folder, {}, "search")
    # The trainings have the config of the search below them: a resumed run need not be given it again.
    base = api.keys_for_training(folder, wanted.given())
    wanted = replace(_part(wanted, (1 - SEARCH_SHARE) / 2), base=base)
    own, _ = train(folder, wanted, folder / TRAINING, "training")
    rival = _random_cell(own, found.seed, wanted)
    other = None if rival is None else train(rival, wanted, folder / RANDOM, "random cell")[0]
    if as_json:
        results: dict[str, Any] = {"search": found, "training": own, "random": other}
        plain = {name: None if result is None else result.to_dict() for name, result in results.items()}
        print_json({**plain, "run": str(folder)})
    else:
        _show(found, own, other, folder)


def _random_cell(own: TrainResult, seed: int, wanted: Wanted) -> AnyGenotype | None:
    """Of the seed as all else: the same run has the same random cell. Limits hold for it too; None if none fits."""
    generator, config = stream(seed, "random cell"), wanted.resolved({"space": own.space})
    for _ in range(DRAWS):
        with suppress(TooLargeError):
            return api.cell_for(random_genotype(own.space, generator), config).genotype
    return None


def _part(wanted: Wanted, share: float) -> Wanted:
    """The same with a share of the time."""
    if wanted.time_budget is None:
        return wanted
    return replace(wanted, time_budget=f"{share * seconds_of(wanted.time_budget):.3f}s")


def _show(found: SearchResult, own: TrainResult, other: TrainResult | None, folder: Path) -> None:
    learner = found.retained if own.learner is None else own.learner
    if own.choice:
        typer.echo(f"{own.choice}\n")
    else:
        typer.echo(f"learner {learner} was retained; its cell, trained from scratch:\n")
    typer.echo(draw(from_plain(own.space, own.genotype)) + "\n")
    rows = [("", "test error %", "parameters", "multiply-adds", "training")]
    for name, result in ((f"learner {learner}", own), ("a random cell", other)):
        if result is None:
            continue
        error = "none" if result.test_error is None else f"{result.test_error:.2f}"
        sizes = (f"{result.parameters:,}", f"{result.multiply_adds:,}")
        rows.append((name, error, *sizes, written(result.seconds)))
    print_columns(rows)
    typer.echo(f"architecture gradient of the search: {found.gradient}")
    beside = "The random cell is of the same space and was trained the same way."
    if other is None:
        beside = f"Of {DRAWS} random cells none was small enough to stand beside it."
    typer.echo(f"\n{beside} Search: {written(found.seconds)}. Everything is in {folder}")
