"""Run folders that were never run: what a report reads, with numbers that a test knows."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from smallgroup.config import resolve
from smallgroup.spaces.genotypes import dumps, from_plain

EDGES = 6
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
CELLS = (
    "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|",
    "|nor_conv_1x1~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|nor_conv_1x1~1|avg_pool_3x3~2|",
)


def picture() -> str:
    """A small PNG in base64."""
    with BytesIO() as file:
        Image.new("L", (8, 8), 128).save(file, "PNG")
        return base64.b64encode(file.getvalue()).decode()


def scores(epoch: int, learner: int) -> list[list[float]]:
    """That move from epoch to epoch."""
    return [
        [round(0.1 + 0.01 * ((3 * e + 5 * o + 7 * epoch + learner) % 17), 4) for o in range(len(OPERATIONS))]
        for e in range(EDGES)
    ]


def row(epoch: int, learner: int, epochs: int, classes: int) -> dict[str, Any]:
    """A line of metrics: learner 1 begins weak in the first class, strong in the second."""
    left = 1 - epoch / max(1, epochs - 1)
    v = [90.0 - 70.0 * left * ((c + learner) % 2) for c in range(classes)]
    w = [80.0 - 60.0 * left * ((c + learner) % 2) for c in range(classes)]
    return {
        "epoch": epoch,
        "learner": learner,
        "v_lr": 0.1 / (epoch + 1),
        "w_lr": 0.1 / (epoch + 1),
        "a_lr": 0.003,
        "v_loss": 2.0 * left + 0.1,
        "w_loss": 2.2 * left + 0.2 + learner / 10,
        "w_unlabeled_loss": 1.5 * left + 0.3,
        "norm_direct": 0.1,
        "norm_own": 0.05 * left + 0.001,
        "norm_cross": 0.01 * left + 0.0001,
        "norm_label": 0.02,
        "cosine_own": -0.3,
        "cosine_cross": 0.1,
        "cosine_label": 0.2,
        "agreement": 0.5 + 0.04 * epoch,
        "label_entropy": 2.0 * left,
        "v_error": 60.0 * left + 10.25 + learner,
        "v_recognised": v,
        "w_error": 70.0 * left + 12.5 + learner,
        "w_recognised": w,
        "w_validation_loss": 2.0 * left + 0.5 + learner / 100,
        "derived_error": 75.0 * left + 20.0,
        "edge_entropy": {"cell": [0.9] * EDGES},
        "scores": {"cell": scores(epoch, learner)},
        "skips": 1,
        "genotype": CELLS[(epoch + learner) % 2],
        "warnings": {},
        "true_accuracy": {"cifar10": 90.0 + epoch},
        "percentile": {"cifar10": 50.0},
        "pseudo_labels": {
            "given": [10] * classes,
            "agreed": [5] * classes,
            "images": [8] * classes,
            "right": [6 if learner else 4] * classes,
        },
    }


def make_run(
    folder: Path,
    *,
    epochs: int = 4,
    learners: int = 2,
    classes: tuple[str, ...] = ("cat", "dog", "owl"),
    config: dict[str, Any] | None = None,
    finished: bool = True,
    names: tuple[str, ...] = (),
    error: float = 12.5,
) -> Path:
    """The folder of a search."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = resolve({"learners": learners, **(config or {})})
    environment = {"torch": "2.13", "cpu": "a processor", "threads": 1, "kernels": "plain"}
    (folder / "config.yaml").write_text(resolved.to_yaml(environment))
    rows = [row(epoch, k, epochs, len(classes)) for epoch in range(epochs) for k in range(learners)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    learner = {"method": "darts", "space": "nas-bench-201", "summary": "a learner"}
    facts = {
        "schema": 1,
        "kind": "search",
        "dataset": "digits",
        "classes": list(classes),
        "notes": [],
        "image": {"channels": 1, "size": 8},
        "images": {"train": 100, "validation": 100},
        "learners": [learner] * learners,
        "course": {"steps": 10 * epochs, "steps_per_epoch": 10, "epochs": epochs},
        "versions": {"smallgroup": "0.1.0", "python": "3.11"},
        "machine": {"cores": 2},
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    times = [
        {
            "step": 10 * (e + 1),
            "seconds": {"stage 1": 1.0, "stage 2": 2.0, "stage 3": 5.0, "rest": 2.0},
            "peak_memory_mb": 321.0,
        }
        for e in range(epochs)
    ]
    (folder / "times.jsonl").write_text("".join(json.dumps(one) + "\n" for one in times))
    images = [
        {
            "image": 7 + place,
            "divergence": 0.5,
            "labels": [[[0, 0.75], [1, 0.25]], [[1, 0.625], [2, 0.375]]],
            "picture": picture(),
            "class": 1,
            **({"name": names[place]} if place < len(names) else {}),
        }
        for place in range(3)
    ]
    (folder / "gallery.json").write_text(json.dumps({"schema": 1, "epoch": epochs - 1, "images": images}))
    if finished:
        genotype = from_plain("nas-bench-201", rows[-learners]["genotype"])
        (folder / "genotype.json").write_text(dumps(genotype))
        (folder / "result.json").write_text(json.dumps(result(rows, learners, resolved.lam, error)))
    return folder


def result(rows: list[dict[str, Any]], learners: int, lam: float, error: float) -> dict[str, Any]:
    """What a finished search says."""
    group = [
        {
            "method": "darts",
            "validation_loss": 0.5 + k / 100,
            "validation_error": error + k,
            "genotype": rows[-learners + k]["genotype"],
        }
        for k in range(learners)
    ]
    return {
        "method": "darts",
        "space": "nas-bench-201",
        "dataset": "digits",
        "learners": learners,
        "lambda": lam,
        "hypergradient": "first-order",
        "seed": 0,
        "steps": 40,
        "seconds": 40.0,
        "peak_memory_mb": 321.0,
        "retained": 0,
        "genotype": group[0]["genotype"],
        "parameters": 1234,
        "validation_loss": 0.5,
        "validation_error": error,
        "group": group,
        "true_accuracy": {"cifar10": 93.0},
        "percentile": {"cifar10": 70.0},
        "percentile_at_cost": {"cifar10": 55.0},
    }


def add_training(
    folder: Path, *, error: float = 7.5, name: str = "training", config: dict[str, Any] | None = None
) -> Path:
    """The folder of a training within that of a search."""
    place = folder / name
    place.mkdir()
    (place / "config.yaml").write_text(resolve({"learners": 2, **(config or {})}).to_yaml({}))
    rows = [{"epoch": e, "train_error": 50.0 / (e + 1), "loss": 2.0 / (e + 1), "lr": 0.1} for e in range(3)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (place / "facts.json").write_text(json.dumps({"schema": 1, "kind": "training", "dataset": "digits"}))
    told = {
        "dataset": "digits",
        "genotype": CELLS[0],
        "parameters": 14_100,
        "multiply_adds": 2_000_000,
        "seconds": 5.0,
        "test_error": error,
        "test_set": "looked at once, after the last epoch",
        "class_errors": {f"a class with a name, {c}": 10.0 for c in range(20)},
        "confusion": [[9] * 20] * 20,
    }
    (place / "result.json").write_text(json.dumps(told))
    (place / "genotype.json").write_text(dumps(from_plain("nas-bench-201", CELLS[0])))
    (place / "model.json").write_text("{}")
    return place
