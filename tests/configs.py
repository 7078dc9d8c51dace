"""Sections of a config for tests of single parts, without a recipe: plain settings, as in the DARTS papers."""

from typing import Any

from smallgroup.phases.playoff.config import PlayOffConfig
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.training.config import TrainingConfig

FULL_SIZE: dict[str, Any] = {"halvings": 0, "reduction": "residual", "stages": 3, "pooling": "average"}
"""Networks of NAS-Bench-201 as the benchmark has them."""
WEIGHTS = {"lr": 0.025, "min_lr": 0.001, "momentum": 0.9, "weight_decay": 3e-4, "clip": 5.0}
SEARCH: dict[str, Any] = {
    "epochs": 10,
    "steps_per_epoch": None,
    "image_size": None,
    "lambda": 1.0,
    "hypergradient": "finite-difference",
    "radius": 0.01,
    "label_path": True,
    "order": "v-w-a",
    "v_warmup": 0.0,
    "architecture_warmup": None,
    "answer": "retained",
}
TRAINING: dict[str, Any] = {
    "epochs": 600,
    "batch_size": 96,
    "least_steps": None,
    "optimizer": "sgd",
    "lr": 0.025,
    "min_lr": 0.0,
    "schedule": "cosine",
    "weight_decay": 3e-4,
    "average": 0.0,
    "validation": 0.0,
    "clip": 5.0,
    "label_smoothing": 0.0,
    "drop_path": 0.2,
    "network": {"channels": 36, **FULL_SIZE},
}


def search_config(**given: Any) -> SearchConfig:
    """The section `search`; of its own sections, what is not given is plain too."""
    if "lam" in given:
        given["lambda"] = given.pop("lam")
    sizes = {"train": 64, "unlabeled": 64, "validation": 64}
    inner = {
        "batch_size": _merged(sizes, given.pop("batch_size", {})),
        "weights": _merged(WEIGHTS, given.pop("weights", {})),
        "architecture": _merged({"lr": None}, given.pop("architecture", {})),
    }
    return SearchConfig(**{**SEARCH, **inner, **given})


def training_config(**given: Any) -> TrainingConfig:
    """The section `training`."""
    return TrainingConfig(**{**TRAINING, **given})


def playoff_config(**given: Any) -> PlayOffConfig:
    """The section `playoff`."""
    network = {"network": {"channels": 24}}
    return PlayOffConfig(**{"candidates": 8, "least_steps": 1, "steps_per_search_step": 1.5, **network, **given})


def _merged(plain: dict[str, Any], given: Any) -> Any:
    return {**plain, **given} if isinstance(given, dict) else given
