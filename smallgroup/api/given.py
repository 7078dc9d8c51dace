"""What the jobs make of what a caller gives: configs, data, cells and sizes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smallgroup.config import CONFIG, Config, keys_for_training, keys_of_any, load_own, overlaid, resolve
from smallgroup.data.config import DataConfig
from smallgroup.data.own import OwnData
from smallgroup.jobs import (
    training_data_of,
)
from smallgroup.phases.training import (
    size,
)
from smallgroup.phases.training.latency import Latencies
from smallgroup.places import holds_run
from smallgroup.spaces import genotypes
from smallgroup.spaces.genotype import Genotype


def or_begun(
    config: Config | Mapping[str, Any] | Path | str | None, out: Path | str | None, *, resume: bool
) -> Config | Mapping[str, Any] | Path | str | None:
    """Return a config; where none is given, that of the run to resume, as the command takes it."""
    own = None if out is None else Path(out) / CONFIG
    return load_own(own) if config is None and resume and own is not None and own.exists() else config


def on_data(config: Config | Mapping[str, Any] | Path | str | None, data: object = None) -> Config | Mapping[str, Any]:
    """Return a config, or keys of one, with the data of a Python program in place of the dataset that it names."""
    if not isinstance(data, OwnData):
        return config if isinstance(config, Config) else keys_of_any(config)
    own = {"dataset": data.reference, "unlabeled": data.unlabeled_reference}
    own = {key: value for key, value in own.items() if value is not None}
    if isinstance(config, Config):
        # What is not the recipe's stays; the recipe itself has other things to say about other data.
        plain = config.to_dict()
        keys = overlaid({key: plain[key] for key in ("recipe", "learners")}, config.departures())
        keys = overlaid({"space": {"name": config.space.name}}, keys)
        named = {} if config.data.dataset == DataConfig().dataset else {"dataset": config.data.dataset}
    else:
        keys = overlaid({}, keys_of_any(config))
        named = {}
    named = {**named, **keys.get("data", {})}
    for key, value in own.items():
        if named.get(key, value) != value:
            raise ValueError(f"data must be given once, but there is data=... and {key} is {str(named[key])[:60]!r}")
    result = overlaid(keys, {"data": own})
    return resolve(result) if isinstance(config, Config) else result


def is_run(genotype: Genotype | Path | str) -> bool:
    """Return whether a cell is named by the folder of its search, which says what data it is for."""
    return isinstance(genotype, str | Path) and holds_run(Path(genotype))


def precision_of(config: Config) -> tuple[str, ...]:
    """Return the mixed precision of a training, if it has one."""
    return () if config.training.precision == "float32" else (config.training.precision,)


def cell_of(genotype: Genotype | Path | str) -> Genotype:
    """Return the cell that a name, a file, a folder or a text stands for."""
    return genotypes.resolve(str(genotype))[1] if isinstance(genotype, str | Path) else genotype


def as_group(config: Config, learners: int | None) -> Config:
    """Return the config of a training by so many learners; None: as it is."""
    own = config.training.group
    if learners is None or (own is not None and own.learners == learners):
        return config
    return resolve(config.to_dict(), [f"training.group.learners={learners}"])


def within_limits(config: Config, cell: Genotype, latencies: Latencies) -> Config:
    """Return the config of a training with a network as large as its limits allow; without limits, as it is."""
    training = config.training
    if not training.limits:
        return config
    images = training_data_of(config).dataset.spec
    network = size.within_limits(cell, training.network, training.limits, images, latencies)
    return config.model_copy(update={"training": training.model_copy(update={"network": network})})


def resolved_for_training(genotype: Genotype | Path | str, given: Mapping[str, Any]) -> Config:
    """Return keys for the training of a cell, above those of the search that found it."""
    below = keys_for_training(genotype, given) if isinstance(genotype, str | Path) else {}
    space = {"space": {"name": cell_of(genotype).space}}
    return resolve(overlaid(overlaid(below, given), space))
