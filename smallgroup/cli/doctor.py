"""Carry out `smallgroup doctor`: check versions, devices and data."""

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import typer

from smallgroup import kernels
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.config import resolve
from smallgroup.data import DATASETS, Finding, data_root, examine
from smallgroup.data.doctor import Shrunk
from smallgroup.data.names import names_alone
from smallgroup.exporters import EXPORTERS
from smallgroup.methods import METHODS
from smallgroup.registry import Registry
from smallgroup.runtime.device import DeviceRecord, list_devices
from smallgroup.spaces import GROUND_TRUTHS, SPACES, GroundTruth
from smallgroup.version import __version__

REGISTRIES: tuple[tuple[str, Registry[Any]], ...] = (
    ("method", METHODS),
    ("space", SPACES),
    ("dataset", DATASETS),
    ("ground truth", GROUND_TRUTHS),
    ("exporter", EXPORTERS),
)
"""Registries that plugins may add to."""


def run(root: Path | None, named: tuple[str, ...], *, as_json: bool) -> None:
    """Look at everything, and at data that are named; print it, and end with 1 if something is wrong."""
    root = data_root(root)
    machine = {
        "smallgroup": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "cuda": torch.cuda.is_available(),
        "kernels": kernels.in_words(kernels.best()),
        "data_root": str(root),
    }
    devices = list_devices()
    plugins = {
        f"{kind} {name}": place
        for kind, known in REGISTRIES
        for name, place in {**known.added(), **known.problems()}.items()
    }
    findings = [
        *examine(root, tuple(dict.fromkeys((*names_alone(), *named))), _shrunk()),
        *(_truth(kind, root) for _, kind in GROUND_TRUTHS.usable()),
    ]
    if as_json:
        print_json(
            {
                **machine,
                "devices": [asdict(one) for one in devices],
                "plugins": plugins,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        print_columns((name.replace("_", " "), _word(value)) for name, value in machine.items())
        say("", "devices")
        print_columns((one.name, "ok" if one.works else "fails", *_about(one)) for one in devices)
        if plugins:
            say("", "plugins")
            print_columns(plugins.items())
        say()
        print_columns((finding.what, finding.status, finding.sentence) for finding in findings)
    wrong = [finding for finding in findings if finding.status == "damaged"]
    if wrong or any(finding.status == "missing" and finding.what in named for finding in findings):
        raise typer.Exit(1)


def _shrunk() -> Shrunk | None:
    """Return the image size of a search with default settings."""
    default = resolve({})
    size, where = default.search.image_size, f"in searches of the recipe {default.recipe} (search.image_size)"
    return None if size is None else Shrunk(size, where)


def _truth(kind: type[GroundTruth], root: Path) -> Finding:
    """Look for a table or a surrogate."""
    where = root / kind.name
    try:
        found = kind.find(root)
    except (ValueError, OSError) as error:
        return Finding(kind.name, str(where), "damaged", str(error))
    if found is None:
        return Finding(kind.name, str(where), "missing", kind.missing(where))
    more = f" on {', '.join(found.columns)}" if kind.caveat is None else f": {kind.caveat}"
    return Finding(kind.name, str(where), "ok", f"{kind.about}{more}")


def _about(device: DeviceRecord) -> tuple[str, str]:
    """Return a description of a device, and the result of trying it."""
    sizes = [f"{size / 1e9:.1f} GB {word}" for size, word in ((device.memory, "in all"), (device.free, "free")) if size]
    return ", ".join([device.about, *sizes]), device.tried


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
