"""Where a job may keep its run, and on which device it was begun."""

from collections.abc import Mapping
from pathlib import Path

from smallgroup.config import CONFIG, Config, load_own
from smallgroup.data import data_root
from smallgroup.data.names import source_of
from smallgroup.places import check_for_run, check_part
from smallgroup.runner import check_folder
from smallgroup.runtime.text import shown


def check_place(folder: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that a run cannot have, such as one of other files, before anything is computed."""
    check_part(folder)
    check_for_run(folder)
    _check_outside(folder, config)
    check_folder(folder, resume=resume)


def _check_outside(folder: Path, config: Config) -> None:
    """Refuse a run among the classes of its images: it would be one of them when it is resumed."""
    for parent in source_of(config.data.dataset, data_root(config.data.data_root)).folders_of_classes():
        if folder.resolve().is_relative_to(parent.resolve()):
            raise ValueError(f"every folder in {shown(str(parent))} is a class, but the run's folder {folder} is in it")


def device_before(folder: Path) -> str | None:
    """Return the device of the run in a folder; None if there is none. Earlier versions ran on the CPU."""
    if not (folder / CONFIG).exists():
        return None
    made = load_own(folder / CONFIG).get("environment")
    found = made.get("device") if isinstance(made, Mapping) else None
    return found if isinstance(found, str) else "cpu"
