"""A real search, training and study in a folder, and the commands that read them."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smallgroup.exporters import EXPORTERS
from smallgroup.study import Store, open_study, planned
from tests.tools.fuzz.outputs.attacks import NAME
from tests.tools.fuzz.outputs.listed import list_attacks
from tests.tools.fuzz.outputs.served import watch_and_fetch
from tests.tools.fuzz.outputs.steps import Said, Step, command, heard

SEARCH, TRAINING, STUDY, STUDIES, IMAGES = "search", "training", "study.yaml", "studies", "images"
READ_OF_RUNS = ("config.yaml", "facts.json", "metrics.jsonl", "result.json", "genotype.json", "architectures.json")
"""Files of a run with texts in them; not all runs have all of them."""
MORE = ("gallery.json", "times.jsonl", "model.json")
EXPORTED = ("model.json", "result.json")
"""Files that an export reads."""


@dataclass(frozen=True)
class Material:
    """A folder with a search, a training and a study; the images are elsewhere and shared by all copies."""

    root: Path
    images: Path

    def copied(self, place: Path) -> "Material":
        """The same in another folder, to be spoiled."""
        shutil.copytree(self.root, place, ignore=shutil.ignore_patterns(IMAGES))
        return Material(place, self.images)

    def files(self) -> list[Path]:
        """All files that commands read, from the folder."""
        names = {*READ_OF_RUNS, *MORE, "failed.json", STUDY}
        return sorted(path.relative_to(self.root) for path in self.root.rglob("*") if path.name in names)

    def steps(self, file: Path) -> dict[str, Step]:
        """By what they are: what is done with the file that was spoiled."""
        search, training = (str(self.root / name) for name in (SEARCH, TRAINING))
        study = ["study", str(self.root / STUDY), "--out", str(self.root / STUDIES)]
        page = ["--out", f"{self.made}/page.html", "--svg", f"{self.made}/svg"]
        lines: dict[str, list[list[str]]] = {
            SEARCH: [
                *(["show", search], ["show", search, "--json"], ["report", search, *page]),
                *(["search", "--resume", "--out", search], ["search", "--resume", "--out", search, "--json"]),
                *(["describe", f"{search}/genotype.json"], ["describe", f"{search}/genotype.json", "--json"]),
            ],
            TRAINING: [
                *(["show", training], ["report", training, *page]),
                *(["train", search, "--resume", "--out", training], ["predict", training, *self._two_images()]),
                *(["predict", training, str(self.others), *words] for words in (["--top", "2"], ["--json"])),
                *(self._exports(training) if file.name in EXPORTED else []),
            ],
            STUDIES: [study, [*study, "--json"], [*study, "--dry-run"]],
        }
        lines[STUDY] = lines[STUDIES]
        part = file.parts[0]
        steps: dict[str, Step] = {" ".join(line): command(line) for line in lines[part]}
        if part in (SEARCH, TRAINING):
            steps[f"watch {self.root / part}"] = watch_and_fetch(self.root / part, self.made / "watch")
        return steps

    @property
    def made(self) -> Path:
        """Where commands put what they are told to write."""
        return self.root / "made"

    @property
    def others(self) -> Path:
        """Images to classify, one of which is none."""
        return self.images.parent / "others"

    def _exports(self, training: str) -> list[list[str]]:
        self.made.mkdir(exist_ok=True)
        names = {ending: str(self.made / f"{NAME}.{ending}") for ending in EXPORTERS}
        return [["export", training, "--format", ending, "--out", name] for ending, name in names.items()]

    def _two_images(self) -> list[str]:
        return [str(path) for path in sorted(self.images.rglob("*.png"))[:2]]


def make_material(root: Path) -> tuple[Material, dict[str, Said]]:
    """Make all of it, as small as it can be, and give what the commands said meanwhile."""
    images = root / IMAGES
    _draw_images(images)
    _draw_others(root / "others")
    place, dataset = root / "runs", f"folder:{images}"
    sizes: dict[str, Any] = {"train": 4, "unlabeled": 4, "validation": 4}
    keys: dict[str, Any] = {
        "dataset": dataset,
        "unlabeled": "split",
        "learners": 2,
        "hypergradient": "first-order",
        "data": {"size": 8},
        "space": {"channels": 2},
        "search": {"epochs": 1, "steps_per_epoch": 1, "batch_size": sizes},
        "training": {
            "epochs": 1,
            "steps_per_epoch": 1,
            "batch_size": 4,
            "network": {"channels": 4, "cells": 3, "cells_per_stage": 1, "auxiliary": "none"},
        },
    }
    root.mkdir(parents=True, exist_ok=True)
    config = root / "config.yaml"
    config.write_text(json.dumps(keys))
    lines = [
        ["search", "--config", str(config), "--out", str(place / SEARCH)],
        ["train", str(place / SEARCH), "--out", str(place / TRAINING)],
        ["doctor", dataset, "--data-root", str(root / "nothing")],
        ["doctor", dataset, "--data-root", str(root / "nothing"), "--json"],
    ]
    said = {" ".join(line): heard(command(line)) for line in lines}
    for line, one in said.items():
        if one.code:
            raise RuntimeError(f"smallgroup {line} must succeed, but it failed: {one.err}")
    said |= list_attacks()
    for run in (SEARCH, TRAINING):
        shutil.rmtree(place / run / "checkpoints")
    _make_study(place, keys)
    return Material(place, images), said


def _draw_images(folder: Path) -> None:
    for part, count in (("train", 16), ("val", 3)):
        for number, name in enumerate((NAME, "plain")):
            place = folder / part / name
            place.mkdir(parents=True)
            for i in range(count):
                pixels = np.full((8, 8, 3), 90 * number + i, np.uint8)
                Image.fromarray(pixels).save(place / f"{i}{NAME}.png", "PNG")


def _draw_others(folder: Path) -> None:
    """An image, one that is cut off, and one that never was an image."""
    folder.mkdir()
    whole = folder / f"whole{NAME}.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(whole, "PNG")
    (folder / f"cut{NAME}.png").write_bytes(whole.read_bytes()[:40])
    (folder / f"text{NAME}.png").write_text(NAME)


def _make_study(place: Path, keys: dict[str, Any]) -> None:
    """Of two rows: the search is the run of one, and that of the other has failed."""
    study = {
        "title": "a study",
        "about": "a study",
        "base": keys,
        "rows": [
            {"name": "one", "theirs": {"validation_error": "5"}},
            {"name": "two", "config": {"search": {"epochs": 2}}},
        ],
        "seeds": [0],
        "columns": ["validation_error"],
        "primary": "validation_error",
        "claims": [{"says": "it helps", "row": "one", "than": ["two"]}],
        "figures": [{"kind": "course"}],
    }
    (place / STUDY).write_text(json.dumps(study))
    plan = planned(*open_study(str(place / STUDY)))
    store = Store(place / STUDIES)
    done, failed = plan.runs
    shutil.copytree(place / SEARCH, store.place(done))
    store.folder(failed).mkdir(parents=True)
    store.record_failure(failed, "it broke")
