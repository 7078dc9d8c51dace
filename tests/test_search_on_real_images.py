"""The rooms together: two learners on real CIFAR-10, taught with images of CIFAR-100."""

import os

import pytest
import torch

from smallgroup.data import DataConfig, open_search_data
from smallgroup.group import Learner, Optimizers, SmallGroup
from smallgroup.methods import METHODS, Relaxed
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Space

pytestmark = pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")

SPACES: dict[str, Space] = {
    "darts": DartsSpace(channels=4, cells=3),
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1),
}


@pytest.mark.parametrize(
    ("space", "method", "mode"),
    [
        ("darts", "darts", "first-order"),
        ("nas-bench-201", "darts", "finite-difference"),
        ("nas-bench-201", "gdas", "first-order"),
        ("nas-bench-201", "fair-darts", "first-order"),
    ],
)
def test_losses_fall_in_twenty_steps(space: str, method: str, mode: str) -> None:
    data = open_search_data(DataConfig(dataset="cifar10", unlabeled="cifar100"), seed=0)
    learners, optimizers = [], []
    for k in range(2):
        relaxed = Relaxed(SPACES[space], METHODS[method](), learner=k)
        learner = Learner(
            relaxed, relaxed.initial_architecture(), relaxed.initial_weights("v"), relaxed.initial_weights("w")
        )
        learners.append(learner)
        assert learner.v is not None
        adam = relaxed.method.optimizer
        optimizers.append(
            Optimizers(
                v=torch.optim.SGD(learner.v.values(), lr=0.025, momentum=0.9, weight_decay=3e-4),
                w=torch.optim.SGD(learner.w.values(), lr=0.025, momentum=0.9, weight_decay=3e-4),
                architecture=torch.optim.Adam(
                    learner.architecture.values(), lr=adam.lr, betas=adam.betas, weight_decay=adam.weight_decay
                ),
                v_clip=5.0,
                w_clip=5.0,
            )
        )
    group = SmallGroup(learners, hypergradient=mode, optimizers=optimizers)  # type: ignore[arg-type]
    train, unlabeled, validation = (
        source(32, 0).batches() for source in (data.train, data.without_labels, data.validation)
    )
    reports = [group.step(next(train), next(unlabeled), next(validation)) for _ in range(20)]
    for k in range(2):
        for loss in ("v_loss", "w_loss", "validation_loss"):
            values = torch.tensor([float(getattr(report.learners[k], loss)) for report in reports])
            assert bool(values.isfinite().all())
            assert values[-5:].mean() < values[:5].mean(), f"{loss} of learner {k}: {values.tolist()}"
    assert sum(report.skipped for report in reports) == 0
