"""`smallgroup doctor`."""

import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch
import typer

from smallgroup import __version__, kernels
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.data import NAMES, Finding, data_root, examine
from smallgroup.spaces import GROUND_TRUTHS, GroundTruth


def run(root: Path | None, folders: tuple[str, ...], *, as_json: bool) -> None:
    """Look at everything, print it, and end with 1 if something is wrong."""
    for folder in folders:
        if not folder.startswith("folder:") or folder == "folder:":
            raise ValueError(f"a folder to look at must be given as folder:PATH, but got {folder!r}")
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
    findings = [*examine(root, (*NAMES, *folders)), *(_truth(kind, root) for kind in GROUND_TRUTHS.values())]
    if as_json:
        print_json({**machine, "findings": [asdict(finding) for finding in findings]})
    else:
        print_columns((name.replace("_", " "), _word(value)) for name, value in machine.items())
        say()
        print_columns((finding.what, finding.status, finding.sentence) for finding in findings)
    wrong = [finding for finding in findings if finding.status == "damaged"]
    if wrong or any(finding.status == "missing" and finding.what in folders for finding in findings):
        raise typer.Exit(1)


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


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
