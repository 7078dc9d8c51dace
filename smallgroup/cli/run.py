"""`smallgroup run`: search, train from scratch, and a random cell beside it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from smallgroup import api
from smallgroup.cli.durations import seconds_of, written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.search import search_one
from smallgroup.cli.train import train
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import CONFIG, keys_for_training, load_own, resolve
from smallgroup.display.display import MEASURING
from smallgroup.phases.evaluation import TrainResult
from smallgroup.phases.evaluation.limits import TooLargeError
from smallgroup.phases.evaluation.place import TRAINING
from smallgroup.phases.search.result import SearchResult
from smallgroup.runtime import stream
from smallgroup.spaces.choices import random_genotype
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import FILE, AnyGenotype, from_plain, read, space_of

SEARCH_SHARE = 0.6
"""The part of a time budget that goes to the search; the two trainings share the rest."""
DRAWS = 50
"""Random cells that are drawn before none is thought to be small enough."""
RANDOM = "random"
"""The folder of the training of a random cell."""


def run(wanted: Wanted, *, as_json: bool) -> None:
    """The whole job."""
    config = wanted.resolved({}, wanted.out)
    folder = wanted.out or next_folder(config.data.dataset, config.method_names)
    found, _ = search_one(_part(wanted, SEARCH_SHARE), folder, {}, "search")
    # The trainings have the config of the search below them: a resumed run need not be given it again.
    base = keys_for_training(folder, wanted.given())
    wanted = replace(_part(wanted, 1 - SEARCH_SHARE), base=base)
    cell = _trained_cell(folder, wanted)
    rival = _random_cell(space_of(cell), found.seed, wanted)
    wanted = _sized(wanted, [cell] if rival is None else [cell, rival])
    own, _ = train(folder, wanted, folder / TRAINING, "training")
    beside = _of_the_same_length(wanted, folder)
    other = None if rival is None else train(rival, beside, folder / RANDOM, "random cell")[0]
    if as_json:
        results: dict[str, Any] = {"search": found, "training": own, "random": other}
        plain = {name: None if result is None else result.to_dict() for name, result in results.items()}
        print_json({**plain, "run": str(folder)})
    else:
        _show(found, own, other, folder)


def _trained_cell(folder: Path, wanted: Wanted) -> AnyGenotype:
    """The cell of the search that will be trained: the answer's, or the one that fits the limits."""
    answer = read(folder / FILE, links=False)[0]
    return api.cell_for(folder, wanted.resolved({"space": space_of(answer)}, folder / TRAINING)).genotype


def _random_cell(space: str, seed: int, wanted: Wanted) -> AnyGenotype | None:
    """Of the seed as all else: the same run has the same random cell. Limits hold for it too; None if none fits."""
    generator, config = stream(seed, "random cell"), wanted.resolved({"space": space})
    for _ in range(DRAWS):
        with suppress(TooLargeError):
            return api.cell_for(random_genotype(space, generator), config).genotype
    return None


def _sized(wanted: Wanted, cells: Sequence[AnyGenotype]) -> Wanted:
    """The same with the number of epochs that all cells can have within the time: otherwise errors do not compare."""
    if wanted.time_budget is None:
        return wanted
    say(MEASURING, err=True)
    config = wanted.resolved({"space": space_of(cells[0])})
    sized = api.training_within(config, cells, wanted.time_left()).training
    return replace(_with_length(wanted, sized.epochs, sized.steps_per_epoch), time_budget=None)


def _of_the_same_length(wanted: Wanted, folder: Path) -> Wanted:
    """The same with the epochs of the training that is there: a resumed run was not given its time budget again."""
    if (folder / RANDOM / CONFIG).exists():  # then its own config says it
        return wanted
    own = resolve(load_own(folder / TRAINING / CONFIG)).training
    return _with_length(wanted, own.epochs, own.steps_per_epoch)


def _with_length(wanted: Wanted, epochs: int, steps: int | None) -> Wanted:
    length = (f"training.epochs={epochs}", f"training.steps_per_epoch={'null' if steps is None else steps}")
    return replace(wanted, changes=(*wanted.changes, *length))


def _part(wanted: Wanted, share: float) -> Wanted:
    """The same with a share of the time."""
    if wanted.time_budget is None:
        return wanted
    return replace(wanted, time_budget=f"{share * seconds_of(wanted.time_budget):.3f}s")


def in_comparison(own: TrainResult, other: TrainResult) -> str:
    """How the two trainings compare, in a sentence."""
    if own.steps == other.steps:
        return f"Both cells were trained with the same settings for {own.steps:,} steps."
    return (
        f"The errors do not compare: the cell found was trained for {own.steps:,} steps, the random cell for "
        f"{other.steps:,}."
    )


def _show(found: SearchResult, own: TrainResult, other: TrainResult | None, folder: Path) -> None:
    whose = found.answer.whose if own.learner is None else f"learner {own.learner}"
    say(own.choice or f"{found.answer.sentence}. The cell, trained from scratch:", "")
    say(*draw(from_plain(own.space, own.genotype)).split("\n"), "")
    rows = [("", "test error %", "parameters", "multiply-adds", "epochs", "training")]
    for name, result in ((whose, own), ("a random cell", other)):
        if result is None:
            continue
        error = "none" if result.test_error is None else f"{result.test_error:.2f}"
        sizes = (f"{result.parameters:,}", f"{result.multiply_adds:,}")
        rows.append((name, error, *sizes, str(result.epochs), written(result.seconds)))
    print_columns(rows)
    say(f"architecture gradient of the search: {found.gradient}")
    beside = f"Of {DRAWS} random cells none was small enough to stand beside it."
    if other is not None:
        beside = f"The random cell is of the same space. {in_comparison(own, other)}"
    say("", f"{beside} Search: {written(found.seconds)}. Everything is in {folder}")
