"""Checks of a command's input that need no torch: loading torch takes seconds, and a typo is refused at once."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smallgroup.baseline_names import BASELINES, Baseline
from smallgroup.cli.wanted import Wanted
from smallgroup.config import (
    CONFIG,
    Config,
    NotRegisteredError,
    check_run,
    keys_for_training,
    load_own,
    overlaid,
    seeds_of,
)
from smallgroup.data.errors import require_folder
from smallgroup.data.names import check_name, source_of
from smallgroup.data.roots import data_root
from smallgroup.exporters import EXPORTERS
from smallgroup.exporters.exporter import require_onnxruntime
from smallgroup.methods.config import check_space
from smallgroup.phases.search.config import ANSWERS, AnswerRule
from smallgroup.phases.training import cells
from smallgroup.phases.training.cells import GroupCells
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.place import ABOUT, TRAINING, find_model
from smallgroup.runner.identity import check_identity
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.device_names import AUTO, check_device_name, check_possible
from smallgroup.runtime.launch import launched
from smallgroup.runtime.precision_names import check_first_order
from smallgroup.runtime.text import quoted, shown
from smallgroup.spaces import genotypes
from smallgroup.spaces.design import IMAGES
from smallgroup.spaces.genotype import Genotype
from smallgroup.study import Plan, names, opened, planned

HEADS = ("auto", "one-norm", "two-norms")
"""The values of `describe --auxiliary`."""


def check_search(wanted: Wanted) -> None:
    """Refuse a search that cannot begin, or go on."""
    config = _check_searched(wanted)
    if (begun := wanted.begun()) is not None:
        seed = {} if wanted.seeds is None else {"seed": wanted.seeds}  # then that of the config does not count
        check_identity({**config.of_search(), **seed}, {**begun.of_search(), **seed})


def check_whole_run(wanted: Wanted, *, controls: bool = False) -> None:
    """Refuse a whole run that cannot begin, or go on."""
    config = _check_searched(wanted).penalized()
    if config.training.max_latency_ms is not None:
        require_onnxruntime("--max-latency-ms")
    _check_group(config, wanted, controls=controls)
    if (begun := wanted.begun()) is None:
        return
    mine, theirs = ({**one.of_search(), **one.of_training()} for one in (config, begun))
    # What a time budget decided is kept, whatever the config says that is given again.
    lengths = {"search": ("epochs", "steps_per_epoch"), "playoff": ("seconds",)}
    check_identity(_without(mine, lengths), _without(theirs, lengths))


def _check_searched(wanted: Wanted) -> Config:
    wanted.check()
    if wanted.seeds is not None:
        seeds_of(wanted.seeds)
        wanted = wanted.on_shared()
    config = wanted.resolved({}, wanted.out if wanted.seeds is None else None)
    for learner in config.learners:
        check_space(learner.method, learner.space or config.space)
    check_possible(config.run.device)
    check_first_order(config.run.precision, config.search.hypergradient)
    wanted.check_folder()
    if not wanted.resume:  # a finished run gives its result without its images
        config.data_in_search.require(unlabeled=True)
    return config


def check_training(texts: Sequence[str], wanted: Wanted, *, controls: bool = False) -> None:
    """Refuse a training that cannot begin, or go on; data and seed come from the cell, if it is that of a search."""
    config, _ = _check_trained(texts, wanted)
    if config.training.max_latency_ms is not None:
        require_onnxruntime("--max-latency-ms")
    own = config.training.group
    if own is not None and launched() is not None:
        raise ValueError(
            "torchrun divides the batches of one network over its ranks, but networks that teach one another are "
            "trained by one process"
        )
    group = GroupCells.of(list(texts), 1 if own is None else own.learners)
    _check_group(config, replace(wanted, base=keys_for_training(texts[0], wanted.given())), controls=controls)
    begun = wanted.begun()
    if begun is None or wanted.out is None:
        return
    mine = {**config.of_training(), **cells.identity_of(group, alone=own is None)}
    theirs = {**begun.of_training(), **cells.begun(wanted.out, alone=begun.training.group is None)}
    narrowed = {"training": ("network",)} if config.training.limits else {}  # its width follows from the limits
    check_identity(_without(mine, narrowed), _without(theirs, narrowed))


def _check_group(config: Config, wanted: Wanted, *, controls: bool) -> None:
    """Refuse networks that are to teach one another where nobody says on which images."""
    own = config.training.group
    if own is None:
        if controls:
            raise ValueError("--controls are for networks that teach one another, but there is one network alone")
        return
    if wanted.begun() is not None:
        return
    if own.learned_on == "labeled":
        return
    if "unlabeled" not in overlaid(wanted.base, wanted.given()).get("data", {}):
        raise ValueError(
            "networks that teach one another need --unlabeled: folder:PATH or a dataset, train (the training images "
            "again), or split (part of the training images, whose labels are then not used)"
        )
    if own.needs_unlabeled:
        config.data.require(unlabeled=True)


def check_mutual(texts: Sequence[str], wanted: Wanted, learners: int | None, weight: float | None) -> Peers:
    """Return who learns together; a run that is resumed need not be told again what it is."""
    config, cells = _check_trained(texts, wanted)
    begun = wanted.begun()
    if begun is None or wanted.out is None:
        return Peers.of(cells, learners, 1.0 if weight is None else weight)
    own = Peers.read(wanted.out)
    learners = len(own.genotypes) if learners is None and len(cells) == 1 else learners
    group = Peers.of(cells, learners, own.weight if weight is None else weight)
    check_identity({**config.of_training(), **group.to_dict()}, {**begun.of_training(), **own.to_dict()})
    return group


def _check_trained(texts: Sequence[str], wanted: Wanted) -> tuple[Config, tuple[Genotype, ...]]:
    wanted.check()
    # A search whose plugins are not imported is refused with their names, which its config has and its cell has not.
    wanted = replace(wanted, base=keys_for_training(texts[0], wanted.given()))
    cells = tuple(genotypes.resolve(text)[1] for text in texts)
    config = wanted.resolved({"space": cells[0].space}, wanted.out)
    check_possible(config.run.device)
    wanted.check_folder()
    if not wanted.resume:
        config.data.require(unlabeled=False)
    return config, cells


def _without(identity: Mapping[str, Any], keys: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return an identity without some keys of its sections."""
    return {
        name: {key: value for key, value in section.items() if key not in keys[name]} if name in keys else section
        for name, section in identity.items()
    }


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
        raise ValueError(f"--baselines must be none or different names, but got {quoted(text)}")
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
            f"train needs a cell or the folder of a search, but {shown(folder)} is the folder of a training"
        )
    return replace(wanted, out=wanted.out or folder / TRAINING)


def check_shards(folder: Path, out: Path, encoding: str) -> None:
    """Refuse shards that cannot be written."""
    check_choice("encoding", encoding, ("jpeg", "ppm"))
    require_folder(folder, "shards of a folder of images")
    if os.path.lexists(out):
        raise ValueError(f"--out must be a new folder, but {shown(str(out))} exists")
    require_folder(out.absolute().parent, "the folder around --out")


def check_described(texts: Sequence[str], network: str | None, auxiliary: str) -> None:
    """Refuse genotypes that cannot be read, and a network that is not known."""
    check_choice("auxiliary", auxiliary, HEADS)
    if network is not None:
        check_choice("network", network, tuple(IMAGES))
    for text in texts:
        genotypes.resolve(text)


def plan_study(
    name: str,
    only: Sequence[str],
    *,
    recipe: str | None,
    seeds: str | None,
    changes: Sequence[str],
    workers: int,
    device: str | None = None,
    here: bool = True,
) -> Plan:
    """Plan a study; refuse an unknown name, and options that are wrong for it.

    Unless it is carried out `here`, its devices are those of other machines.
    """
    names.check_workers(workers)
    if device is not None:
        checked = check_device_name(device)
        if here:
            check_possible(checked)
        changes = [*changes, f"run.device={device}"]
    return planned(*opened(name, recipe=recipe, seeds=seeds, changes=changes), *only)


def check_export(run: Path, format_: str) -> None:
    """Refuse a run without a model, and a format that is not known."""
    EXPORTERS.check_name(format_, "format")
    find_model(run)


def check_predict(run: Path, top: int, table: Path | None, device: str = AUTO, *, as_json: bool) -> None:
    """Refuse a run without a model, no class per image, a device that cannot be, and a table that cannot be written."""
    check_counts(top=top)
    check_possible(check_device_name(device))
    if table is not None:
        if as_json:
            raise ValueError("--json and --csv cannot be combined, but got both")
        require_folder(table.parent, "the place of a CSV file")
        if table.is_dir():
            raise ValueError(f"--csv must be a file, but {shown(table)} is a folder")
    find_model(run)


def check_evaluate(run: Path, data: str, root: Path | None, device: str = AUTO) -> None:
    """Refuse a run without a model, and data or a device that are not there."""
    check_possible(check_device_name(device))
    find_model(run)
    source_of(data, data_root(root)).require()


def check_examined(data: Sequence[str]) -> None:
    """Refuse data to look at under names that are not known."""
    for name in data:
        check_name(name)


def check_runs(folders: Sequence[Path]) -> None:
    """Refuse folders in which there is no run."""
    for folder in folders:
        check_run(folder)


def check_reported(folders: Sequence[Path]) -> None:
    """Refuse runs whose plugins are not imported: their page would take the place of one that says more."""
    check_runs(folders)
    for folder in folders:
        if (missing := missing_plugin(folder)) is not None:
            raise missing


def missing_plugin(folder: Path) -> NotRegisteredError | None:
    """Return an error for a plugin that a run needs and that is not imported; None if its config is unreadable."""
    try:
        load_own(folder / CONFIG)
    except NotRegisteredError as error:
        return error
    except (ValueError, OSError):
        return None  # what is damaged is said on the page
    return None
