"""Nothing in a first-order step forbids its capture by a CUDA graph, where the method does not sample.

Batches arrive before, and what is read at the end of a step is read after the graph of its stages: `Checks.settle`.
"""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from torch import Tensor

from smallgroup import kernels
from smallgroup.data import DataConfig, SearchData
from smallgroup.data.search_data import open_search_data
from smallgroup.group.checks import Checks
from smallgroup.methods import METHODS
from smallgroup.methods.darts import Darts
from smallgroup.methods.method import Method
from smallgroup.phases.search import SearchJob
from smallgroup.runtime import Phase
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.testing import PlacementError, TwinDevice
from tests.configs import search_config

IMAGES = ImageSpec(10, 1, 8)
SPACES: dict[str, Space] = {
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES),
    "darts": DartsSpace(channels=4, cells=3, images=IMAGES),
}


@dataclass
class Reading(Darts):
    """DARTS with a value that the host looks at, unless all are zero."""

    name: ClassVar[str] = "reading"

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:
        """Wait for the device."""
        return super().relax(alpha, noise, phase) * (1.0 if alpha.sum().item() > -1e9 else 0.0)


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(labeled_fraction=0.1), seed=0)


def take_captured_step(
    data: SearchData, twin: TwinDevice, space: str, method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of two learners inside a capture, after one outside of it, which sends the constants."""
    sizes = {"train": 8, "unlabeled": 8, "validation": 8}
    config = search_config(hypergradient="first-order", steps_per_epoch=9, architecture_warmup=0.0, batch_size=sizes)
    settle = Checks.settle

    def read_between(checks: Checks) -> None:
        with twin.between_captures():
            settle(checks)

    with kernels.using("torch"):
        job = SearchJob(config, data, [(SPACES[space], method()) for _ in range(2)], seed=3, device=twin.device)
        job.advance()
        train, validation = (stream.batch(job.position) for stream in (job.train, job.validation))
        unlabeled = job.unlabeled.batch(job.position)
        for searcher in job.searchers:
            searcher.prepare(job.position)
        with monkeypatch.context() as patch:
            patch.setattr(Checks, "settle", read_between)
            with twin.captured():
                job.group.step(train, unlabeled, validation)


@pytest.mark.parametrize(
    ("space", "method"), [("nas-bench-201", "darts"), ("nas-bench-201", "pc-darts"), ("nas-bench-201", "darts-minus")]
)
def test_a_step_can_be_captured(
    data: SearchData, twin: TwinDevice, space: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_captured_step(data, twin, space, METHODS[method], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "method"), [("darts", "darts"), ("darts", "pc-darts"), ("nas-bench-201", "fair-darts")]
)
def test_a_larger_step_can_be_captured(
    data: SearchData, twin: TwinDevice, space: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_captured_step(data, twin, space, METHODS[method], monkeypatch)


def test_a_planted_read_is_refused(data: SearchData, twin: TwinDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlacementError, match=r"cannot contain _local_scalar_dense \(reads\).*test_twin_capture.py"):
        take_captured_step(data, twin, "nas-bench-201", Reading, monkeypatch)
