"""Every method in every space, one step on the twin device: nothing is misplaced, and the numbers are the CPU's."""

from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup import kernels
from smallgroup.group import Learner, SmallGroup
from smallgroup.group.hypergradients import Hypergradient
from smallgroup.methods import METHODS, Progress, Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.testing import TwinDevice
from smallgroup.testing.small import small_space

IMAGES = ImageSpec(3, 1, 8)
SPACES: dict[str, Space] = {
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES),
    "darts": DartsSpace(channels=4, cells=3, images=IMAGES),
}

OPTIONS: dict[str, dict[str, Any]] = {"parsec": {"children": 2}, "sdarts-adv": {"ascents": 1}}
EDGES = ("darts", "darts-minus", "fair-darts", "gdas", "p-darts", "pc-darts")
"""Methods that take a step in the larger space too; the others differ from them in the mixing weights."""
PAIRS = [(method, space) for method in METHODS for space in SPACES if space == "nas-bench-201" or method in EDGES]


def step(
    space: Space, method: str, hypergradient: Hypergradient, device: torch.device | str, learners: int
) -> list[Tensor]:
    """A step in float64; all that it has moved."""
    made = []
    for k in range(learners):
        relaxed = Relaxed(space, METHODS[method](**OPTIONS.get(method, {})), seed=1, learner=k)
        relaxed.method.schedule(Progress(epoch=1, epochs=4, step=1, steps=4))
        a = relaxed.initial_architecture(dtype=torch.float64, device=device)
        v, w = (relaxed.initial_weights(role, dtype=torch.float64, device=device) for role in "vw")
        made.append(Learner(relaxed, a, v, w))
    x = torch.randn(6, space.images.channels, 8, 8, generator=stream(0), dtype=torch.float64).to(device)
    y = torch.arange(6).remainder(3).to(device)
    with kernels.using("torch"):
        SmallGroup(made, hypergradient=hypergradient).step((x, y), x.flip(0), (x.flip(2), y))
    assert all(tensor.device == torch.device(device) for one in made for tensor in one.architecture.values())
    return [t.cpu() for one in made for part in (one.architecture, one.v or {}, one.w) for t in part.values()]


def check_same(space: str, method: str, hypergradient: Hypergradient, twin: TwinDevice, learners: int) -> None:
    where = SPACES.get(space) or small_space(space)
    expected = step(where, method, hypergradient, "cpu", learners)
    found = step(where, method, hypergradient, twin.device, learners)
    assert max(float((one - other).abs().max()) for one, other in zip(found, expected, strict=True)) < 1e-12


@pytest.mark.parametrize(("method", "space"), PAIRS)
def test_a_step_of_every_method_and_space(method: str, space: str, twin: TwinDevice) -> None:
    try:
        METHODS[method]().start(SPACES[space])
    except ValueError as refusal:
        pytest.skip(f"{method} does not search {space}: {refusal}")
    check_same(space, method, "finite-difference" if space == "nas-bench-201" else "first-order", twin, learners=1)


@pytest.mark.parametrize(
    "hypergradient", ["first-order", "finite-difference", pytest.param("exact", marks=pytest.mark.slow)]
)
def test_learners_that_teach_one_another(hypergradient: Hypergradient, twin: TwinDevice) -> None:
    check_same("nas-bench-201", "darts", hypergradient, twin, learners=2)


def test_exact_gradients_in_the_largest_space(twin: TwinDevice) -> None:
    check_same("darts", "gdas", "exact", twin, learners=1)


@pytest.mark.slow
@pytest.mark.parametrize("hypergradient", ["first-order", "finite-difference"])
@pytest.mark.parametrize(
    ("space", "method"),
    [
        ("robust-s1", "darts"),
        ("robust-s1", "gdas"),
        ("robust-s2", "darts"),
        ("robust-s3", "darts"),
        ("robust-s4", "darts"),
        ("proxyless", "darts"),
        ("proxyless", "proxyless"),
    ],
)
def test_a_step_in_the_other_spaces(space: str, method: str, hypergradient: Hypergradient, twin: TwinDevice) -> None:
    check_same(space, method, hypergradient, twin, learners=1)
