"""A space under a method: masks, states, stages and copies."""

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from smallgroup.methods import Architecture, Darts, Gdas, Method, Noise, Rebuild, Relaxed
from smallgroup.runtime import Phase
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.space import Mixture
from smallgroup.testing import SmoothSpace
from smallgroup.testing.groups import batches_for, learner_of, relaxed_of
from tests.methods.toys import SMALL, Dropped, Tempered, progress


def test_a_mask_may_not_leave_an_edge_empty() -> None:
    method = Darts()
    method.start(SmoothSpace())
    with pytest.raises(ValueError, match="every edge must keep an operation"):
        method.keep("cell", torch.zeros(3, 5, dtype=torch.bool))


def test_learners_do_not_share_a_method() -> None:
    method = Darts()
    Relaxed(SMALL, method)
    with pytest.raises(ValueError, match="its own method object"):
        Relaxed(SMALL, method, learner=1)


def test_a_frozen_learner_keeps_its_temperature() -> None:
    learner = learner_of(SmoothSpace(), Tempered())
    (x, _), _, _ = batches_for(SmoothSpace())
    frozen = learner.frozen()
    before = frozen(x)
    relaxed_of(learner).method.schedule(progress(9))
    assert torch.equal(before, frozen(x))
    assert not torch.equal(before, learner.logits(learner.w, learner.architecture, x, "label"))


@pytest.mark.parametrize("shape", [(4, 1, 8, 8), (3, 8, 8)])
def test_images_of_another_kind_are_refused(shape: tuple[int, ...]) -> None:
    learner = learner_of(SMALL, Darts())
    with pytest.raises(ValueError, match=r"images must be \[batch, 3, height, width\]"):
        learner.logits(learner.w, learner.architecture, torch.zeros(shape, dtype=torch.float64), "w")


class Misshapen(Method):
    """Returns other weights than there are operations."""

    name: ClassVar[str] = "misshapen"

    def __init__(self, weights: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.weights = weights

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Any:  # noqa: ARG002
        return self.weights(alpha)


class Kindless(Method):
    """Forgets the cells."""

    name: ClassVar[str] = "kindless"

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        return {}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            Misshapen(lambda alpha: alpha[:1]),
            r"weights of method misshapen must .* of kind cell, \(6, 5\), .* \(1, 5\)",
        ),
        (Misshapen(lambda alpha: alpha[0]), r"mixture must be a tensor \[edges, operations\], but got \(5,\)"),
        (Misshapen(lambda _: None), r"mixture must be a tensor \[edges, operations\], but got NoneType"),
        (Kindless(), "method kindless must mix these kinds of cells: cell; but got none"),
    ],
)
def test_a_method_that_mixes_something_else_is_named(method: Method, message: str) -> None:
    relaxed = Relaxed(SMALL, method)
    weights, architecture = relaxed.initial_weights("w"), relaxed.initial_architecture()
    with pytest.raises(ValueError, match=message):
        relaxed(weights, architecture, torch.zeros(2, 3, 8, 8))


def test_a_state_saved_after_pruning_fits_the_weights_it_was_saved_with() -> None:
    learner = learner_of(SmoothSpace(), Darts())
    relaxed = relaxed_of(learner)
    mask = relaxed.method.mask("cell").clone()
    mask[:, 2] = False
    relaxed.method.keep("cell", mask)
    again = Relaxed(SmoothSpace(), Darts())
    again.load_state(relaxed.state())
    (x, _), _, _ = batches_for(SmoothSpace())
    assert torch.equal(
        relaxed(learner.w, learner.architecture, x, phase="w"), again(learner.w, learner.architecture, x, phase="w")
    )
    assert torch.equal(again.method.mask("cell"), mask)


def test_a_state_from_before_a_stage_leads_back_to_its_size_and_its_numbers() -> None:
    relaxed = Relaxed(SmoothSpace(), Gdas())
    architecture = relaxed.initial_architecture()
    before, weights = relaxed.state(), relaxed.initial_weights("w")
    noise = relaxed.noise(architecture, "w")["cell"]
    relaxed.rebuild(Rebuild({"cells": 4}))
    assert not torch.equal(noise, relaxed.noise(architecture, "w")["cell"])
    assert not torch.equal(weights["stem.weight"], relaxed.initial_weights("w")["stem.weight"])
    assert not torch.equal(architecture["alpha_cell"], relaxed.initial_architecture()["alpha_cell"])
    relaxed.load_state(before)
    assert (relaxed.space, relaxed.stage) == (SmoothSpace(), 0)
    assert torch.equal(noise, relaxed.noise(architecture, "w")["cell"])


def test_a_copy_does_not_follow_its_original_into_a_new_stage() -> None:
    relaxed = Relaxed(SmoothSpace(), Darts())
    other = copy(relaxed)
    relaxed.rebuild(Rebuild({"cells": 4}))
    assert "space.cells" in relaxed.state()
    assert "space.cells" not in other.state()


@pytest.mark.parametrize(
    ("kind", "mask", "message"),
    [
        ("cells", torch.ones(3, 5, dtype=torch.bool), "there is no kind 'cells'"),
        ("cell", torch.ones(1, 5, dtype=torch.bool), r"must be bool of shape \(3, 5\)"),
        ("cell", torch.ones(3, 5), "must be bool"),
    ],
)
def test_masks_of_another_form_are_refused(kind: str, mask: Tensor, message: str) -> None:
    method = Darts()
    method.start(SmoothSpace())
    with pytest.raises(ValueError, match=message):
        method.keep(kind, mask)


def test_states_and_stages_of_another_form_are_refused() -> None:
    relaxed = Relaxed(SmoothSpace(), Darts())
    darts = Relaxed(DartsSpace(channels=2, cells=3), Darts()).state()
    for state in ({}, relaxed.state() | {"foo.bar": torch.ones(1)}, darts):
        with pytest.raises(ValueError, match="a saved state must be one of a method"):
            relaxed.load_state(state)
    with pytest.raises(ValueError, match="a new stage changes fields of smooth"):
        relaxed.rebuild(Rebuild({"rooms": 4}))
    assert (relaxed.space, relaxed.stage) == (SmoothSpace(), 0)
    relaxed.rebuild(Rebuild({"cells": 4}))
    assert relaxed.space == SmoothSpace(cells=4)


def test_transforms_differ_from_cell_to_cell_and_edge_to_edge() -> None:
    seen: dict[tuple[int, ...], Tensor] = {}

    class Noted(Dropped):
        def transform(self, operation: str, output: Tensor, generator: torch.Generator, phase: Phase | None) -> Tensor:  # noqa: ARG002
            seen[(len(seen),)] = torch.rand(4, generator=generator)
            return output

    learner = learner_of(SmoothSpace(), Noted())
    (x, _), _, _ = batches_for(SmoothSpace())
    learner.logits(learner.w, learner.architecture, x, "w")
    drawn = {tuple(values.tolist()) for values in seen.values()}
    assert len(drawn) == len(seen) == 2 * 3 * 4
