"""`smallgroup doctor`."""

import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch
import typer

from smallgroup import __version__, kernels
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.config import resolve
from smallgroup.data import NAMES, Finding, data_root, examine
from smallgroup.spaces.darts.truth import COLUMN, Surrogate, can_run
from smallgroup.spaces.ground_truth import CAVEAT
from smallgroup.spaces.nas_bench_201 import Truth

TABLE = "nas-bench-201"


def run(root: Path | None, folders: tuple[str, ...], *, as_json: bool) -> None:
    """Look at everything, print it, and end with 1 if something is wrong."""
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
    default = resolve({})
    shrunk = f"in searches of the recipe {default.recipe} (search.image_size)"
    data = examine(root, (*NAMES, *folders), default.search.image_size, shrunk)
    findings = [*data, _table(root), _surrogate(root)]
    if as_json:
        print_json({**machine, "findings": [asdict(finding) for finding in findings]})
    else:
        print_columns((name.replace("_", " "), _word(value)) for name, value in machine.items())
        say()
        print_columns((finding.what, finding.status, finding.sentence) for finding in findings)
    wrong = [finding for finding in findings if finding.status == "damaged"]
    if wrong or any(finding.status == "missing" and finding.what in folders for finding in findings):
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
