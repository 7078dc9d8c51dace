"""Sound files and texts: what is damaged before it is read."""

import io
import json
import os
import pickle
import subprocess
from typing import Any

import numpy as np
import yaml
from PIL import Image
from safetensors.torch import save
from torch import zeros

CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"
_EDGES = [["sep_conv_3x3", 0], ["skip_connect", 1]]
_PAIR = {"nodes": [_EDGES] * 4, "concat": [2, 3, 4, 5]}
DARTS: dict[str, Any] = {"normal": _PAIR, "reduce": _PAIR}
GENOTYPES: list[dict[str, Any]] = [
    {"schema": 1, "space": "darts", "method": "darts", "dataset": "digits", "seed": 0, "genotype": DARTS},
    {"schema": 1, "space": "nas-bench-201", "method": None, "dataset": None, "seed": None, "genotype": CELL},
    DARTS,
]
_FLAT = "[('sep_conv_3x3', 0), ('skip_connect', 1), ('max_pool_3x3', 0), ('sep_conv_5x5', 1)"
_FLAT += ", ('dil_conv_3x3', 2), ('skip_connect', 0), ('skip_connect', 2), ('dil_conv_5x5', 3)]"
NOTATIONS = [
    f"Genotype(normal={_FLAT}, normal_concat=[2, 3, 4, 5], reduce={_FLAT}, reduce_concat=range(2, 6))",
    f"MINE = Genotype({_FLAT}, [2, 3, 4, 5], {_FLAT}, [2, 3])",
]
CONFIGS: list[dict[str, Any]] = [
    {"dataset": "digits", "learners": 2, "lambda": 0.5, "search": {"epochs": 3, "batch_size": {"train": 8}}},
    {
        "recipe": "paper",
        "seed": 3,
        "data": {"dataset": "cifar10", "unlabeled": "cifar100", "size": 16, "workers": 2},
        "space": {"name": "darts", "channels": 4, "cells": 3},
        "learners": [{"method": "pc-darts", "options": {"part": 2}}, {"method": "gdas", "space": {"channels": 8}}],
        "methods": {"p-darts": {"added": [1, 2], "dropout": [0.1, 0.2, 0.3]}},
        "search": {"weights": {"lr": 0.1, "clip": None}, "architecture": {"betas": [0.5, 0.9]}, "order": "v-w-a"},
        "training": {"network": {"channels": 4}, "augmentation": {"cutout": 4}, "precision": "float32"},
        "run": {"threads": 1, "checkpoint_minutes": 0},
    },
]
YAMLS = [yaml.safe_dump(config).encode() for config in CONFIGS]
CHANGES = ["search.epochs=3", "learners=[{method: gdas}]", "data.size=8", "lambda=0.5", "methods.pc-darts.part=2"]
SEEDS = ["1-5", "1,4,7", "0-2, 9"]
STUDIES: list[dict[str, Any]] = [
    {
        "title": "a study",
        "recipe": "quick",
        "base": CONFIGS[0],
        "grid": {"search.lambda": [0.0, 1.0]},
        "rows": [
            {"name": "alone", "config": {"learners": 1}, "take": "first"},
            {"name": "group", "config": {"search": {"lambda": 1}}, "controls": {"of": "DARTS"}},
            {"name": "there", "where": [{"at": {"search.lambda": 1.0}, "config": {"lambda": 2}}], "labelers": {}},
            {"name": "random", "baseline": {"kind": "random", "lookups": 10}},
        ],
        "seeds": "1-2",
        "columns": ["validation_error"],
        "primary": "validation_error",
        "claims": [{"says": "it helps", "row": "group", "than": ["alone"]}],
        "figures": [{"kind": "curve", "axis": "search.lambda"}],
    },
    {
        "title": "a table of the paper",
        "by_recipe": {"paper": {"learners": 3}},
        "rows": [{"name": "a", "theirs": {"test_error": "3.1 ± 0.2"}, "train": {"training": {"epochs": 2}}}],
        "seeds": [1],
        "phases": ["search", "train"],
        "retrainings": 2,
        "columns": ["test_error", "parameters"],
        "primary": "test_error",
        "figures": [{"kind": "course"}],
    },
]
ROW: dict[str, Any] = {
    "epoch": 0,
    "learner": 0,
    "w_lr": 0.1,
    "w_loss": 2.3,
    "w_error": 50.0,
    "v_error": 60.0,
    "w_recognised": [0.5, 0.5],
    "w_validation_loss": 2.2,
    "derived_error": 80.0,
    "norm_direct": 0.1,
    "edge_entropy": {"cell": [0.9] * 6},
    "scores": {"cell": [[0.2] * 5] * 6},
    "skips": 2,
    "genotype": CELL,
    "warnings": [],
    "pseudo_labels": {"given": [3, 5], "agreed": [1, 2]},
}
LINES = [b"".join(json.dumps({**ROW, "epoch": epoch}).encode() + b"\n" for epoch in range(2))]
_ONE = {"method": "darts", "validation_loss": 2.2, "validation_error": 50.0, "genotype": CELL}
RESULT: dict[str, Any] = {
    **_ONE,
    "space": "nas-bench-201",
    "dataset": "digits",
    "learners": 1,
    "lambda": 1.0,
    "seed": 0,
    "steps": 6,
    "hypergradient": "first-order",
    "seconds": 1.5,
    "peak_memory_mb": 300.0,
    "retained": 0,
    "answer": {"rule": "retained", "learner": 0, "sentence": "learner 0 is retained"},
    "parameters": 9,
    "group": [_ONE],
}
FACTS: dict[str, Any] = {
    "schema": 1,
    "kind": "search",
    "dataset": "digits",
    "classes": ["zero", "one"],
    "notes": [],
    "image": {"channels": 1, "size": 8},
    "images": {"train": 9, "validation": 9},
    "learners": [{"method": "darts", "space": "nas-bench-201", "summary": "small"}],
    "course": {"steps": 6, "steps_per_epoch": 3, "epochs": 2},
    "versions": {"python": "3"},
    "machine": {"cores": 2},
}
RUNS = [{"rows": [ROW, {**ROW, "epoch": 1}], "result": RESULT, "facts": FACTS, "config": CONFIGS[0]}]
WRONG = [{"schema": 1, "wrong": [0, 1, 1, 0]}]
PLANS = [{"seconds": 60.0, "clock": "wall", "baselines": ["resnet", "random"], "search_seconds": 12.5}]
PEERS = [{"schema": 1, "spaces": ["nas-bench-201"] * 2, "weight": 1.0, "learners": {"0": CELL, "1": CELL}}]
HEADERS: list[dict[str, Any]] = [
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "I64", "shape": [1], "data_offsets": [24, 32]},
    }
]
TENSORS = save({"a": zeros(2, 3), "b": zeros(1)})
RECORDS: list[dict[str, Any]] = [
    {
        "step": 3,
        "run": {
            "metrics": 0,
            "metrics_sha256": None,
            "seconds": 1.5,
            "identity": {"seed": 0},
            "environment": {"torch": "2", "cpu": "x", "threads": 1, "kernels": "plain"},
        },
        "job": {"step": 3},
    }
]
MANIFESTS: list[dict[str, Any]] = [{"schema": 1, "sha256": {"tensors.safetensors": "", "record.json": ""}}]


class _Payload:
    """Runs a command when it is unpickled by who should not."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, ("exit 3",)


_IMAGES = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
PICKLES = [pickle.dumps(_IMAGES, protocol) for protocol in range(2, 6)]
PAYLOADS = [
    pickle.dumps({b"data": _Payload(call), b"labels": []}, protocol)
    for call in (os.system, exec, subprocess.getoutput)
    for protocol in range(6)
]
OPCODES = [
    *(b"}", b"]", b")", b"(", b"t", b"s", b"u", b"a", b"e", b"b", b"R", b"0", b"1", b"2", b"l", b"d", b"o", b"\x81"),
    *(b"\x85", b"\x86", b"\x87", b"\x88", b"\x89", b"N", b"K\x01", b"J\xff\xff\xff\x7f", b"h\x00", b"q\x00", b"\x94"),
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"S'exit 3'\n", b"\x93", b"\x8c\x02os", b"\x8c\x06system", b"Vx\n"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"U\x02u1", b"C\x04data"),
    *(
        b"c_codecs\nencode\n",
        b"X\x04\x00\x00\x00data",
        b"\x8a\x08" + b"\x7f" * 8,
        b"\x80\x02",
        b"\x80\xff",
        b"Q",
        b"P1\n",
    ),
]


def _picture(form: str, frames: int = 1, mode: str = "RGB") -> bytes:
    image = Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).convert(mode)
    with io.BytesIO() as file:
        more: dict[str, Any] = (
            {"save_all": True, "append_images": [image.rotate(90)] * (frames - 1)} if frames > 1 else {}
        )
        image.save(file, form, **more)
        return file.getvalue()


PICTURES = [
    *(_picture(form) for form in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")),
    *(_picture("PNG", mode=mode) for mode in ("L", "1", "RGBA", "P")),
    *(_picture(form, frames=3) for form in ("GIF", "PNG", "WEBP", "TIFF")),
    b"P6 60000 60000 255\n",
    b"P6 9999 9999 255\n" + b"\x00" * 99,
    b"GIF89a" + b"\xff" * 40,
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
]
