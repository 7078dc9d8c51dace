"""The contract notices methods that break it: one wrong method per rule."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from smallgroup.methods import Architecture, Darts, Gdas, Method, Noise
from smallgroup.runtime import Phase, stream
from smallgroup.spaces import Space
from smallgroup.testing import MethodContract
from smallgroup.testing.method_contract import SMALL


class FreshNoise(Gdas):
    """Draws while it mixes: no pass can be repeated."""

    calls: ClassVar[list[int]] = []

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:
        self.calls.append(0)
        noise = torch.rand(alpha.shape, generator=stream(len(self.calls))).to(alpha)
        return super().relax(alpha, noise, phase)


class OneNoiseForAll(Gdas):
    """Every learner and phase draws the same in a step: the generator is not used, only what was drawn before."""

    drawn: ClassVar[list[Noise]] = []

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        own = super().draw(architecture, phase, generator)
        self.drawn.append(own)
        return self.drawn[(len(self.drawn) - 1) % 8]


class GlobalGenerator(Darts):
    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:  # noqa: ARG002
        return {f"alpha_{name}": torch.randn(kind.shape) for name, kind in space.kinds.items()}


class StateElsewhere(Darts):
    """Counts steps in an attribute that nobody saves."""

    count = 0

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:  # noqa: ARG002
        self.count += 1


def _unmasked(architecture: Architecture) -> dict[str, Tensor]:
    return {name.removeprefix("alpha_"): alpha for name, alpha in architecture.items()}


class IgnoresMasks(Darts):
    def logits(self, architecture: Architecture) -> dict[str, Tensor]:
        return _unmasked(architecture)


class DerivesWhatWasRemoved(Darts):
    def derive(self, space: Space, architecture: Architecture) -> Any:
        return space.derive(_unmasked(architecture), self.rule)


class ChangesItsDtype(Darts):
    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        return alpha.softmax(dim=1) + (0.1 if alpha.dtype == torch.float32 else 0.0)


class DifferentEveryCall(Darts):
    """A mixture that depends on how often it was asked for: finite differences see a moving function."""

    asked = 0.0

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        object.__setattr__(self, "asked", self.asked + 1e-3)
        return (alpha * (1 + self.asked)).softmax(dim=1)


Check = Callable[[MethodContract], None]
WRONG: list[tuple[type[Method], Check]] = [
    (FreshNoise, lambda c: c.test_noise_replays()),
    (OneNoiseForAll, lambda c: c.test_noise_is_drawn_anew()),
    (GlobalGenerator, lambda c: c.test_global_generators_are_left_alone()),
    (StateElsewhere, lambda c: c.test_state_survives_save_and_load()),
    (IgnoresMasks, lambda c: c.test_masks_are_respected(SMALL["nas-bench-201"])),
    (DerivesWhatWasRemoved, lambda c: c.test_masks_are_respected(SMALL["darts"])),
    (ChangesItsDtype, lambda c: c.test_both_dtypes_compute_the_same()),
    (DifferentEveryCall, lambda c: c.test_finite_differences_agree_with_exact_derivatives()),
]


@pytest.mark.parametrize(("method", "check"), WRONG, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_method_is_noticed(method: type[Method], check: Check) -> None:
    class Contract(MethodContract):
        def method(self) -> Method:
            return method()

    with pytest.raises((AssertionError, RuntimeError)):
        check(Contract())
