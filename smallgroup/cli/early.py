"""Checks of a command's input that need no torch: loading torch takes seconds, and a typo is refused at once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smallgroup import recipes
from smallgroup.baseline_names import BASELINES, Baseline
from smallgroup.cli.wanted import Wanted
from smallgroup.config import CONFIG, changed, check_run, keys_for_training, seeds_of
from smallgroup.data.names import check_name
from smallgroup.exporters import EXPORTERS
from smallgroup.phases.search.config import ANSWERS, AnswerRule
from smallgroup.phases.training.peers import FILE as PEERS
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.place import ABOUT, TRAINING, find_model
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.text import shown
from smallgroup.spaces import genotypes
from smallgroup.spaces.design import IMAGES
from smallgroup.study import names

HEADS = ("auto", "one-norm", "two-norms")
"""What `describe --auxiliary` takes."""


def check_search(wanted: Wanted) -> None:
    """Refuse a search, or a whole run, that cannot begin."""
    wanted.check()
    if wanted.seeds is not None:
        seeds_of(wanted.seeds)
    config = wanted.resolved({}, wanted.out if wanted.seeds is None else None)
    wanted.check_folder()
    if not wanted.resume:  # a finished run gives its result without its images
        config.data_in_search.require(unlabeled=True)


def check_training(texts: Sequence[str], wanted: Wanted) -> None:
    """Refuse a training that cannot begin; data and seed come from the first cell, if it is that of a search."""
    wanted.check()
    cell, *_ = [genotypes.resolve(text)[1] for text in texts]
    wanted = replace(wanted, base=keys_for_training(texts[0], wanted.given()))
    config = wanted.resolved({"space": cell.space}, wanted.out)
    wanted.check_folder()
    if not wanted.resume:
        config.data.require(unlabeled=False)


def peers_of(texts: Sequence[str], wanted: Wanted, learners: int | None, weight: float | None) -> Peers:
    """Return who learns together; a run that is resumed need not be told again what it is."""
    cells = tuple(genotypes.resolve(text)[1] for text in texts)
    if wanted.resume and wanted.out is not None and (wanted.out / PEERS).is_file():
        begun = Peers.read(wanted.out)
        weight = begun.weight if weight is None else weight
        learners = len(begun.genotypes) if learners is None and len(cells) == 1 else learners
    return Peers.of(cells, learners, 1.0 if weight is None else weight)


def baselines_of(text: str | None) -> tuple[Baseline, ...] | None:
    """Read `resnet,random`, or `none`; None: nothing was said."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        check_choice("a baseline", name, ("none", *BASELINES))
    if "none" in names or len(set(names)) < len(names):
        raise ValueError(f"--baselines takes none, or names that differ, but got {shown(text)!r}")
    return tuple(name for name in BASELINES if name in names)


def answer_of(text: str | None) -> AnswerRule | None:
    """Read the name of a rule."""
    if text is not None:
        check_choice("an answer", text, tuple(ANSWERS))
    return next((rule for rule in ANSWERS if rule == text), None)


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


def check_described(texts: Sequence[str], network: str | None, auxiliary: str) -> None:
    """Refuse genotypes that cannot be read, and a network that is not known."""
    check_choice("auxiliary", auxiliary, HEADS)
    if network is not None:
        check_choice("network", network, tuple(IMAGES))
    for text in texts:
        genotypes.resolve(text)


def check_study(name: str, recipe: str | None, seeds: str | None, changes: Sequence[str], workers: int) -> None:
    """Refuse a study that is not known, and what is wrong with the options that stand above it."""
    names.check_study(name)
    names.check_workers(workers)
    if recipe is not None:
        check_choice("recipe", recipe, recipes.names())
    if seeds is not None:
        seeds_of(seeds)
    changed({}, changes)


def check_export(run: Path, format_: str) -> None:
    """Refuse a run without a model, and a format that is not known."""
    EXPORTERS.check_name(format_, "format")
    find_model(run)


def check_predict(run: Path, top: int) -> None:
    """Refuse a run without a model, and no class per image."""
    check_counts(top=top)
    find_model(run)


def check_examined(data: Sequence[str]) -> None:
    """Refuse data to look at under names that are not known."""
    for name in data:
        check_name(name)


def check_runs(folders: Sequence[Path]) -> None:
    """Refuse folders in which there is no run."""
    for folder in folders:
        check_run(folder)
