"""A small job whose every bit depends on every step before it."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.runner import Runner
from smallgroup.runtime import stream
from smallgroup.runtime.environment import Environment


class Walk:
    """x <- tanh(M x + noise of the step), with a velocity beside it."""

    def __init__(self, epochs: int = 4, steps: int = 5, *, seconds: float = 0.0, forgets: bool = False) -> None:
        self.steps, self.total = steps, epochs * steps
        self.seconds, self.forgets = seconds, forgets
        self.step = 0
        self.x, self.velocity = torch.zeros(8, dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
        self.fail_at = -1
        self.closed = False

    @property
    def finished(self) -> bool:
        return self.step == self.total

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        if self.step == self.fail_at:
            raise FloatingPointError(f"step {self.step}")
        time.sleep(self.seconds)
        noise = torch.randn(8, generator=stream(0, "walk", self.step), dtype=torch.float64)
        self.velocity = 0.9 * self.velocity + noise
        self.x = torch.tanh(self.x.roll(1) + 0.1 * self.velocity)
        self.step += 1
        return None if self.step % self.steps else [{"epoch": self.step // self.steps - 1, "x": float(self.x.sum())}]

    def leave_out(self) -> bool:
        self.step += 1
        return True

    def close(self) -> None:
        self.closed = True

    def state(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        tensors = {"x": self.x} if self.forgets else {"x": self.x, "velocity": self.velocity}
        return tensors, {"step": self.step}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        self.x, self.velocity = tensors["x"], tensors.get("velocity", self.velocity)
        self.step = record["step"]


def runner(folder: Path, **options: Any) -> Runner:
    given = {"identity": {"job": "walk"}, "environment": Environment("t", "c", 1, "k"), "minutes": 0.0, **options}
    return Runner(folder, **given)


def interrupted(job: Any, folder: Path, step: int) -> None:
    """Run a job, or go on with it, until it fails before a step."""
    original = job.advance

    def advance() -> Any:
        if job.step == step:
            raise FloatingPointError
        return original()

    job.advance = advance
    with pytest.raises(FloatingPointError):
        runner(folder).run(job, resume=folder.exists())


if __name__ == "__main__":
    walk = Walk(epochs=20, steps=10, seconds=0.002)
    print("ready", flush=True)
    runner(Path(sys.argv[1])).run(walk, resume=(Path(sys.argv[1]) / "checkpoints").exists())
