"""Numbers of the publications: optimizers of the architecture, warm-up, and the defaults of options."""

from typing import Any

import pytest
import torch

from smallgroup.methods import METHODS
from smallgroup.methods.config import published_options
from smallgroup.runtime import stream
from smallgroup.spaces.darts import DartsSpace

DARTS: dict[str, Any] = {
    "lr": 3e-4,
    "betas": (0.5, 0.999),
    "weight_decay": 1e-3,
    "clip": None,
    "warmup": 0.0,
    "rule": "top2",
    "removed": set(),
    "evaluate": "all",
}
"""Adam on the architecture from the first step, and two edges per node; all eight operations of the DARTS space."""
OWN: dict[str, dict[str, Any]] = {
    "asap": {"warmup": 10 / 50, "removed": {"none"}},
    "bayes-nas": {"removed": {"none"}},
    "dr-nas": {"lr": 6e-4},
    "drop-nas": {"evaluate": "active"},
    "dsnas": {"lr": 1e-3, "weight_decay": 0.0, "evaluate": "active"},
    "fair-darts": {"lr": 3e-3, "betas": (0.9, 0.999), "rule": "threshold", "removed": {"none"}},
    "gdas": {"rule": "pairs", "evaluate": "active"},
    "noisy-darts": {"removed": {"none"}},
    "p-darts": {"lr": 6e-4, "clip": 5.0, "warmup": 10 / 25},
    "parsec": {"evaluate": "active"},
    "pc-darts": {"lr": 6e-4, "warmup": 15 / 50},
    "proxyless": {"lr": 1e-3, "betas": (0.0, 0.999), "weight_decay": 0.0, "warmup": 40 / 160},
    "snas": {"clip": 10.0, "rule": "every-edge"},
}
"""What is different; methods that are not here have all as DARTS."""
OPTIONS: dict[str, dict[str, Any]] = {
    "asap": {"first_temperature": 1.6, "decay": 0.95, "published_epochs": 50, "threshold": 0.4},
    "bayes-nas": {"edge_weight": 0.01, "operation_weight": 0.005},
    "beta-darts": {"last_weight": 50.0},
    "darts": {},
    "darts-minus": {"decay": "linear"},
    "darts-plus": {"criterion": "skips", "skips": 2, "patience": 10},
    "darts-pt": {"selection": 0.5, "blank": False},
    "dr-nas": {"parts": (1,), "kept": (), "divergence": 0.0, "none": False},
    "drop-nas": {"rate": 3e-5},
    "dsnas": {"margin": 0.3, "cost_weight": 0.0, "cost_limit": 0.0},
    "fair-darts": {"zero_one_weight": 10.0},
    "gdas": {"first_temperature": 10.0, "last_temperature": 0.1},
    "merge-nas": {},
    "noisy-darts": {"scale": 0.2, "mean": 0.0, "drop_path": 0.0},
    "oles": {"least": 0.4, "every": 20},
    "p-darts": {"added": (6, 12), "kept": (5, 3), "dropout": (0.0, 0.4, 0.7), "skips": 2},
    "parsec": {"children": 16},
    "pc-darts": {"part": 4},
    "proxyless": {"gates": "full", "every": 5, "cost_weight": 0.0},
    "r-darts": {
        "stopping": "early",
        "drop_path": 0.0,
        "every": 2,
        "first": 10,
        "window": 5,
        "back": 4,
        "factor": 1.3,
        "growth": 10.0,
        "most_decay": 0.03,
        "products": 20,
    },
    "sdarts-adv": {"first_epsilon": 0.03, "last_epsilon": 0.3, "ascents": 7},
    "sdarts-rs": {"first_epsilon": 0.03, "last_epsilon": 0.3},
    "snas": {"first_temperature": 1.0, "last_temperature": 0.03, "cost_weight": 0.0},
}


@pytest.mark.parametrize("name", METHODS.built_in)
def test_numbers_are_those_of_the_publication(name: str) -> None:
    method = METHODS[name]
    found = {
        **{key: getattr(method.optimizer, key) for key in ("lr", "betas", "weight_decay", "clip")},
        "warmup": method.warmup,
        "rule": method.rule.name,
        "removed": set(method.removed),
        "evaluate": method.evaluate,
    }
    assert found == DARTS | OWN.get(name, {})
    assert published_options(name) == OPTIONS[name]


@pytest.mark.parametrize("name", ["snas", "dsnas"])
def test_architectures_that_begin_around_one(name: str) -> None:
    alpha = torch.cat([t.flatten() for t in METHODS[name]().initial(DartsSpace(), stream(0)).values()])
    assert abs(float(alpha.mean()) - 1) < 0.002
    assert 0.008 < float(alpha.std()) < 0.012


def test_noise_and_dropout_are_behind_skip_connections() -> None:
    assert METHODS["noisy-darts"].transformed == METHODS["p-darts"].transformed == frozenset({"skip_connect"})
