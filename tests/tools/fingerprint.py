"""`python -m tests.tools.fingerprint [FILE]`: hashes of what three searches and a training compute, to the bit.

A change that should not alter results shows the same hashes before and after. Given the file that an earlier call
wrote, it compares and exits with 1 where something differs. About ten seconds of CPU time; the machine, torch and the
kernels must be the same both times.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

import smallgroup

SMALL: dict[str, Any] = {
    "dataset": "digits",
    "seed": 3,
    "data": {"labeled_fraction": 0.3},
    "run": {"threads": 1},
}
SECTION: dict[str, Any] = {
    "epochs": 2,
    "steps_per_epoch": 4,
    "v_warmup": 0.1,
    "architecture_warmup": 0.2,
    "batch_size": {"train": 16, "unlabeled": 16, "validation": 16},
    "lambda": 1.0,
    "answer": "retained",
}
BENCHMARK = {"name": "nas-bench-201", "channels": 4, "cells_per_stage": 1}
STAGED = {"name": "darts", "channels": 4, "cells": 3}
SEARCHES: dict[str, dict[str, Any]] = {
    "darts alone": {"learners": 1, "space": BENCHMARK, "search": {**SECTION, "hypergradient": "first-order"}},
    "group of two": {"learners": 2, "space": BENCHMARK, "search": {**SECTION, "hypergradient": "finite-difference"}},
    "p-darts": {
        "learners": 2,
        "method": "p-darts",
        "space": STAGED,
        "search": {**SECTION, "hypergradient": "first-order", "epochs": 6, "steps_per_epoch": 2},
    },
}
TIMES = {"seconds", "peak_memory_mb", "evaluation_seconds", "step_seconds", "stage_seconds"}
"""Keys that are measured, not computed."""


def fingerprints() -> dict[str, str]:
    """Return the hashes by name of what is computed."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, own in SEARCHES.items():
            folder = Path(place) / name.replace(" ", "-")
            smallgroup.search({**SMALL, **own}, out=folder, progress=False)
            found |= {f"{name}: {part}": value for part, value in _of_run(folder).items()}
        folder = Path(place) / "training"
        network = {"channels": 8, "cells_per_stage": 1, "stages": 2, "auxiliary": "none"}
        training = {"epochs": 2, "steps_per_epoch": 5, "batch_size": 16, "network": network}
        keys = {**SMALL, "training": training}
        smallgroup.train(Path(place) / "group-of-two", keys, out=folder, progress=False)
        found |= {f"training: {part}": value for part, value in _of_run(folder).items()}
    return found


def _of_run(folder: Path) -> dict[str, str]:
    # The last alone: how many are written before it depends on the time that epochs take.
    newest = max(path.parent for path in folder.glob("checkpoints/*/*.safetensors"))
    return {
        # However they are divided into files.
        "checkpoint tensors": _digest(
            [sorted(pair for path in newest.glob("*.safetensors") for pair in _tensors(path))]
        ),
        "metrics": _digest([_untimed(json.loads(line)) for line in _lines(folder / "metrics.jsonl")]),
        "genotype": _digest(json.loads((folder / "genotype.json").read_text())),
        "result": _digest(_untimed(json.loads((folder / "result.json").read_text()))),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _tensors(path: Path) -> list[tuple[str, str]]:
    with safe_open(path, framework="np") as file:
        return [(name, hashlib.sha256(file.get_tensor(name).tobytes()).hexdigest()) for name in sorted(file.keys())]


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untimed(inner) for key, inner in value.items() if key not in TIMES and "seconds" not in key}
    return [_untimed(inner) for inner in value] if isinstance(value, list) else value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """Write the hashes to a file, or compare them with those of the file."""
    found = fingerprints()
    file = Path(arguments[0]) if arguments else None
    if file is None or not file.exists():
        text = json.dumps(found, indent=2)
        print(text) if file is None else file.write_text(text + "\n")
        return 0
    before = json.loads(file.read_text())
    names = sorted(before.keys() | found.keys())
    for name in names:
        print(f"{name}: {'the same' if before.get(name) == found.get(name) else 'DIFFERENT'}")
    return int(before != found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
