"""Every method in every space and mode on the twin device: where it can be searched, the numbers are the CPU's."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

from smallgroup import kernels
from smallgroup.data import DataConfig, SearchData
from smallgroup.data.search_data import open_search_data
from smallgroup.group.hypergradients import Hypergradient
from smallgroup.methods import METHODS, PDarts, Progress, Relaxed
from smallgroup.methods.darts import Darts
from smallgroup.methods.dr_nas import DrNas
from smallgroup.methods.method import ArchitectureOptimizer, Method
from smallgroup.methods.noisy_darts import NoisyDarts
from smallgroup.methods.r_darts import RDarts
from smallgroup.phases.search import SearchJob
from smallgroup.runtime import stream
from smallgroup.runtime.fields import draw_normal, draw_uniform
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.layers import NoiseLayer
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Mixture
from smallgroup.testing import Traffic, TwinDevice
from smallgroup.testing.small import small_space
from tests.configs import search_config
from tests.testing.test_twin_learners import check_same

IMAGES = ImageSpec(10, 1, 8)
BENCHMARK = NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES)
CELLS = DartsSpace(channels=2, cells=3, images=IMAGES)
SPACES = ("nas-bench-201", "darts", "robust-s1", "robust-s2", "robust-s3", "robust-s4", "proxyless")


def skip_refused(method: str, space: str) -> None:
    try:
        METHODS[method]().start(small_space(space))
    except ValueError as refusal:
        pytest.skip(f"{method} does not search {space}: {refusal}")


@pytest.mark.slow
@pytest.mark.parametrize("hypergradient", ["first-order", "finite-difference"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("method", METHODS)
def test_a_step(method: str, space: str, hypergradient: Hypergradient, twin: TwinDevice) -> None:
    skip_refused(method, space)
    check_same(space, method, hypergradient, twin, learners=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_an_exact_step(method: str, twin: TwinDevice) -> None:
    space = "nas-bench-201" if method != "p-darts" else "darts"
    check_same(space, method, "exact", twin, learners=1)


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(labeled_fraction=0.1), seed=0)


def job_of(
    data: SearchData, device: torch.device | str, space: Space, methods: list[Method], **options: object
) -> SearchJob:
    sizes = {"train": 8, "unlabeled": 8, "validation": 8}
    own = {"hypergradient": "first-order", "steps_per_epoch": 9, "architecture_warmup": 0.0, "batch_size": sizes}
    return SearchJob(
        search_config(**{**own, **options}), data, [(space, one) for one in methods], seed=3, device=device
    )


def traffic_of(data: SearchData, twin: TwinDevice, space: Space, methods: list[Method]) -> Traffic:
    """What a first-order step asks for, after warm-up; metrics and batches belong to it."""
    with kernels.using("torch"):
        job = job_of(data, twin.device, space, methods)
        job.advance()
        job.advance()
        with twin.counted() as traffic:
            assert job.advance() is None
    return traffic


def check_traffic(found: Traffic, learners: int) -> None:
    """A copy for every batch, and one for all random numbers; none of images, filters or masks."""
    assert found.reads.total() <= 2, found
    packed = [place for place in found.copies.elements() if "data/sending.py" not in place]
    assert found.copies.total() - len(packed) <= (3 if learners > 1 else 2), found
    assert [place.partition(" at ")[2].partition(":")[0] for place in packed] in ([], ["runtime/packing.py"]), found


@pytest.mark.parametrize(
    ("space", "method"),
    [
        (BENCHMARK, NoisyDarts(drop_path=0.2)),
        (BENCHMARK, RDarts(drop_path=0.2)),
        pytest.param(CELLS, PDarts(added=(), kept=(), dropout=(0.4,)), marks=pytest.mark.slow),
        pytest.param(small_space("robust-s4"), Darts(), marks=pytest.mark.slow),
    ],
    ids=["noisy-darts", "r-darts", "p-darts", "noise"],
)
def test_random_numbers_of_the_size_of_images_are_not_sent(space: Space, method: Method, twin: TwinDevice) -> None:
    found = []
    for device in (torch.device("cpu"), twin.device):
        relaxed = Relaxed(space, deepcopy(method), seed=1)
        relaxed.method.schedule(Progress(epoch=1, epochs=4, step=1, steps=4))
        a, w = relaxed.initial_architecture(device=device), relaxed.initial_weights("w", device=device)
        x = torch.randn(4, *space.images.shape, generator=stream(0)).to(device)
        with kernels.using("torch"):
            relaxed(w, a, x)  # sends the constants
            with twin.counted() as traffic:
                found.append(relaxed(w, a, x, phase="w"))
    assert (traffic.reads.total(), traffic.copies.total()) == (0, 0), traffic
    assert torch.allclose(found[0], found[1].cpu(), rtol=1e-3, atol=1e-4)


def test_dropout_and_noise_are_computed_where_the_images_are(twin: TwinDevice) -> None:
    x, method = torch.randn(2, 3, 4, 4, generator=stream(0)), PDarts(added=(), kept=(), dropout=(0.4,))
    method.state["dropout"] = torch.tensor(0.4)
    there = x.to(twin.device)
    with twin.captured():  # a copy would be refused
        found = [method.transform("skip_connect", there, stream(1), "w"), NoiseLayer(2)(there, stream(1))]
    expected = [method.transform("skip_connect", x, stream(1), "w"), NoiseLayer(2)(x, stream(1))]
    assert all(torch.equal(one.cpu(), other) for one, other in zip(found, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("method", METHODS)
def test_two_learners_wait_twice_at_most(data: SearchData, twin: TwinDevice, method: str, space: str) -> None:
    skip_refused(method, space)
    known: dict[str, Space] = {"nas-bench-201": BENCHMARK, "darts": CELLS}
    own: Any = known.get(space) or replace(small_space(space), images=IMAGES)  # type: ignore[type-var]
    check_traffic(traffic_of(data, twin, own, [METHODS[method]() for _ in range(2)]), learners=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["darts", "pc-darts"])
def test_a_step_of_eight_cells_stays_below_40_000_launches(data: SearchData, twin: TwinDevice, method: str) -> None:
    space = DartsSpace(channels=4, cells=8, images=IMAGES)
    found = traffic_of(data, twin, space, [METHODS[method]() for _ in range(2)])
    assert found.launches.total() < 40_000, found.launches


@pytest.mark.parametrize("draw", [draw_uniform, draw_normal])
def test_a_device_draws_the_same_and_nothing_is_sent(draw, twin: TwinDevice) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    with twin.counted() as traffic:
        found = draw((4, 3, 5), stream("b"), twin.device)
    assert (traffic.reads.total(), traffic.copies.total()) == (0, 0)
    assert torch.equal(found.cpu(), draw((4, 3, 5), stream("b"), torch.device("cpu")))


def test_weights_that_lead_nowhere_have_no_gradient(twin: TwinDevice) -> None:
    """Else momentum and weight decay would move them on a device, and on the CPU they stay."""
    # Edges 1 and 5 give nothing, so that nothing is made of node 2: edge 2 leads nowhere, in a call with edge 4 or not.
    rows = torch.zeros(6, 5).scatter(1, torch.tensor([[3], [0], [2], [1], [2], [0]]), 1.0)
    untouched = []
    for device in (torch.device("cpu"), twin.device):
        relaxed = Relaxed(BENCHMARK, METHODS["gdas"](), seed=1)
        weights = {n: t.requires_grad_() for n, t in relaxed.initial_weights("w", device=device).items()}
        x, mixture = torch.randn(4, 1, 8, 8, generator=stream(0)), Mixture(rows.to(device), evaluate="active")
        with kernels.using("torch"):
            logits = relaxed._supernet_logits(weights, x.to(device), {"cell": mixture})
        found = torch.autograd.grad(logits.square().sum(), list(weights.values()), allow_unused=True)
        untouched.append({name for name, gradient in zip(weights, found, strict=True) if gradient is None})
    assert untouched[0] == untouched[1]
    assert any("edges.2.operations.nor_conv_1x1" in name for name in untouched[1])
    assert not any("edges.4.operations.nor_conv_1x1" in name for name in untouched[1])


@dataclass
class Sharp(DrNas):
    """DrNAS with an architecture that moves far."""

    name: ClassVar[str] = "sharp"
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer(lr=0.3)


@pytest.mark.parametrize("order", ["v-w-a", "a-v-w"])
def test_draws_are_made_from_the_architecture_of_their_pass(order: str, data: SearchData, twin: TwinDevice) -> None:
    moved = []
    for device in ("cpu", twin.device):
        with kernels.using("torch"):
            job = job_of(data, device, BENCHMARK, [Sharp()], order=order, lam=0.0)
            for _ in range(2):
                job.advance()
            moved.append(torch.cat([tensor.cpu().flatten() for tensor in job.searchers[0].learner.w.values()]))
    assert float((moved[0] - moved[1]).abs().max()) < 1e-4
