"""`smallgroup doctor`."""

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import typer

from smallgroup import kernels
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.data import DATASETS, Finding, data_root, examine
from smallgroup.data.names import names_alone
from smallgroup.exporters import EXPORTERS
from smallgroup.methods import METHODS
from smallgroup.registry import Registry
from smallgroup.spaces.darts.truth import COLUMN, Surrogate, can_run
from smallgroup.spaces.ground_truth import CAVEAT
from smallgroup.spaces.nas_bench_201 import Truth
from smallgroup.version import __version__

TABLE = "nas-bench-201"
REGISTRIES: tuple[tuple[str, Registry[Any]], ...] = (
    ("method", METHODS),
    ("dataset", DATASETS),
    ("exporter", EXPORTERS),
)
"""What plugins may add to."""


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
    plugins = {f"{kind} {name}": place for kind, known in REGISTRIES for name, place in known.added().items()}
    findings = [*examine(root, tuple(dict.fromkeys((*names_alone(), *named)))), _table(root), _surrogate(root)]
    if as_json:
        print_json({**machine, "plugins": plugins, "findings": [asdict(finding) for finding in findings]})
    else:
        print_columns((name.replace("_", " "), _word(value)) for name, value in machine.items())
        if plugins:
            say("", "plugins")
            print_columns(plugins.items())
        say()
        print_columns((finding.what, finding.status, finding.sentence) for finding in findings)
    wrong = [finding for finding in findings if finding.status == "damaged"]
    if wrong or any(finding.status == "missing" and finding.what in named for finding in findings):
        raise typer.Exit(1)


def _table(root: Path) -> Finding:
    where = root / TABLE
    try:
        truth = Truth.find(root)
    except (ValueError, OSError) as error:
        return Finding(TABLE, str(where), "damaged", str(error))
    if truth is None:
        return Finding(TABLE, str(where), "missing", f"the accuracy table is not here: there is no CSV file in {where}")
    return Finding(TABLE, str(where), "ok", f"accuracies of all 15,625 cells on {', '.join(truth.columns)}")


def _surrogate(root: Path) -> Finding:
    where = root / COLUMN
    try:
        found = Surrogate.find(root)
    except (ValueError, OSError) as error:
        return Finding(COLUMN, str(where), "damaged", str(error))
    if found is not None:
        return Finding(COLUMN, str(where), "ok", f"predicted accuracies of cells of the DARTS space: {CAVEAT}")
    why = f"the surrogate is not in {where}" if can_run() else "it needs onnxruntime: pip install 'smallgroup[onnx]'"
    return Finding(COLUMN, str(where), "missing", why)


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
