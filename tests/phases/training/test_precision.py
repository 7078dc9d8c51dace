"""Training in bfloat16 and float16: what is computed in which numbers, scaled gradients, and their resumption."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.phases.training import TrainingJob
from tests.phases.training.test_training_job import CELL, everything, job, same
from tests.runner.jobs import interrupted, runner

SCALE = 1024.0
"""Small enough for gradients that do not overflow, large enough for clipping to notice."""


def gradient(training: TrainingJob, of: str = "") -> Tensor:
    """What the first step moved along: with neither decay nor earlier steps the momentum is the gradient."""
    training.advance()
    found = [each for name, each in training.state()[0].items() if name.startswith(f"momentum.{of}")]
    assert found
    return torch.cat([each.flatten() for each in found])


def scaled(**options: Any) -> TrainingJob:
    """A training in float16 whose losses are scaled by 1,024."""
    training = job(precision="float16", weight_decay=0.0, genotype=CELL, **options)
    tensors, record = training.state()
    record["scaler"]["scale"] = SCALE
    training.load_state(tensors, record)
    return training


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_passes_are_computed_in_the_precision_and_all_else_in_float32(precision: str) -> None:
    training = job(precision=precision, genotype=CELL)
    seen: dict[str, set[torch.dtype]] = {}

    def note(module: torch.nn.Module, _: Any, output: Tensor) -> None:
        seen.setdefault(type(module).__name__, set()).add(output.dtype)

    for module in training.network.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(note)
    training.advance()
    wanted = {getattr(torch, precision)}
    assert seen == {"Conv2d": wanted, "Linear": wanted}
    assert {each.dtype for each in training.state()[0].values() if each.is_floating_point()} == {torch.float32}
    seen.clear()
    training.test()
    assert seen["Conv2d"] == {torch.float32}


@pytest.mark.parametrize(("precision", "digits"), [("bfloat16", 8), ("float16", 11)])
def test_less_precision_gives_another_gradient_but_a_close_one(precision: str, digits: int) -> None:
    """Of the last layer: in those below, a rounding may decide whether a ReLU lets something through."""
    exact, rough = (
        gradient(job(precision=each, weight_decay=0.0, clip=None, genotype=CELL), "classifier.weight")
        for each in ("float32", precision)
    )
    difference = float((rough - exact).norm() / exact.norm())
    assert 2.0 ** -(digits + 4) < difference < 2.0 ** -(digits - 4)


@pytest.mark.parametrize("clip", [0.01, 0.1])
def test_gradients_are_clipped_as_they_are_not_as_they_are_scaled(clip: float) -> None:
    free = gradient(scaled(clip=None))
    assert float(free.norm()) > clip  # or there would be nothing to clip
    torch.testing.assert_close(gradient(scaled(clip=clip)), free * clip / free.norm(), rtol=1e-3, atol=1e-6)


def test_a_gradient_within_the_limit_is_left_as_it_is() -> None:
    """Its scaled norm is far beyond the limit."""
    free = gradient(scaled(clip=None))
    limit = 2 * float(free.norm())
    assert torch.equal(gradient(scaled(clip=limit)), free)


def overflowing(training: TrainingJob, step: int) -> TrainingJob:
    """One gradient that is too large for float16, in one step."""
    weight: Any = training.network.classifier.weight
    weight.register_hook(lambda found: found * float("inf") if training.step == step else found)
    return training


def test_a_step_that_overflows_is_left_out_and_the_next_is_scaled_less() -> None:
    training = overflowing(scaled(), 1)
    training.advance()
    before, record = [each.clone() for each in training.network.parameters()], training.state()[1]
    assert record["scaler"]["scale"] == SCALE
    training.advance()
    assert training.step == 2
    assert all(torch.equal(now, was) for now, was in zip(training.network.parameters(), before, strict=True))
    assert training.state()[1]["scaler"]["scale"] == SCALE / 2
    training.advance()
    assert not torch.equal(training.network.classifier.weight, before[-2])


def test_a_resumed_training_scales_as_it_did(tmp_path: Path) -> None:
    options: dict[str, Any] = {"precision": "float16", "genotype": CELL}
    whole = overflowing(job(**options), 1)
    runner(tmp_path / "whole").run(whole)
    interrupted(overflowing(job(**options), 1), tmp_path / "part", 4)
    again = job(**options)
    first = again.state()[1]["scaler"]["scale"]
    runner(tmp_path / "part").run(again, resume=True)
    assert whole.state()[1]["scaler"] == again.state()[1]["scaler"]
    assert again.state()[1]["scaler"]["scale"] <= first / 2
    assert same(everything(whole), everything(again))
