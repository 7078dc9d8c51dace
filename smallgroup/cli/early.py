"""Checks of a command's input that need no torch: loading torch takes seconds, and a typo is refused at once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smallgroup import recipes
from smallgroup.cli.wanted import Wanted
from smallgroup.config import CONFIG, changed, check_run, keys_for_training, seeds_of
from smallgroup.phases.training.place import ABOUT, TRAINING
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.text import shown
from smallgroup.spaces import genotypes
from smallgroup.spaces.design import IMAGES
from smallgroup.study import names


def check_search(wanted: Wanted) -> None:
    """Refuse a search, or a whole run, that cannot begin."""
    wanted.check()
    if wanted.seeds is not None:
        seeds_of(wanted.seeds)
    config = wanted.resolved({}, wanted.out if wanted.seeds is None else None)
    if not wanted.resume:  # a finished run gives its result without its images
        config.data_in_search.require(unlabeled=True)


def check_training(texts: Sequence[str], wanted: Wanted) -> None:
    """Refuse a training that cannot begin; data and seed come from the first cell, if it is that of a search."""
    wanted.check()
    cell, *_ = [genotypes.resolve(text)[1] for text in texts]
    wanted = replace(wanted, base=keys_for_training(texts[0], wanted.given()))
    config = wanted.resolved({"space": cell.space}, wanted.out)
    if not wanted.resume:
        config.data.require(unlabeled=False)


def with_folder(text: str, wanted: Wanted) -> Wanted:
    """Choose the folder of a training: inside that of the search whose cell is trained, unless another is named."""
    folder = Path(text)
    if not (folder / CONFIG).is_file():
        return wanted
    if (folder / ABOUT).is_file():
        raise ValueError(
            f"what is trained is a cell, or that of a search, but {shown(folder)} is the folder of a training"
        )
    return replace(wanted, out=wanted.out or folder / TRAINING)


def check_described(texts: Sequence[str], network: str | None) -> None:
    """Refuse genotypes that cannot be read, and a network that is not known."""
    if network is not None:
        check_choice("network", network, tuple(IMAGES))
    for text in texts:
        genotypes.resolve(text)


def check_study(name: str, recipe: str | None, seeds: str | None, changes: Sequence[str]) -> None:
    """Refuse a study that is not known, and what is wrong with the options that stand above it."""
    names.check_study(name)
    if recipe is not None:
        check_choice("recipe", recipe, recipes.names())
    if seeds is not None:
        seeds_of(seeds)
    changed({}, changes)


def check_runs(folders: Sequence[Path]) -> None:
    """Refuse folders in which there is no run."""
    for folder in folders:
        check_run(folder)
