"""The rooms together: two learners on real CIFAR-10, taught with images of CIFAR-100."""

import os

import pytest
import torch

from smallgroup.data import DataConfig, SearchData, open_search_data, ordered
from smallgroup.group import Learner, Optimizers, SmallGroup
from smallgroup.methods import Darts, Relaxed
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Space

pytestmark = pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")

SPACES: dict[str, Space] = {
    "darts": DartsSpace(channels=4, cells=3),
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1),
}


@pytest.mark.parametrize(
    ("space", "mode", "size", "steps"),
    [
        pytest.param("darts", "first-order", 8, 10, marks=pytest.mark.slow),
        ("nas-bench-201", "finite-difference", 32, 14),  # after 10, rounding alone moves a loss by 0.005
    ],
)
def test_losses_fall_in_a_few_steps(space: str, mode: str, size: int, steps: int) -> None:
    data = open_search_data(DataConfig(dataset="cifar10", unlabeled="cifar100"), seed=0)
    learners, optimizers = [], []
    for k in range(2):
        relaxed = Relaxed(SPACES[space], Darts(), learner=k)
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
    train, unlabeled, validation = data.train(size, 0), data.without_labels(size, 0), data.validation(size, 0)
    before = losses(learners, data)
    reports = [group.step(train.batch(i), unlabeled.batch(i), validation.batch(i)) for i in range(steps)]
    assert sum(report.skipped for report in reports) == 0
    for name, after in losses(learners, data).items():
        assert after < before[name] - 0.02, f"{name}: {before[name]:.3f} before, {after:.3f} after"


def losses(learners: list[Learner], data: SearchData) -> dict[str, float]:
    """The mean loss of V and W of each learner on 128 images of each part, always the same ones."""
    found = {}
    for part, indices in (("train", data.splits.train), ("validation", data.splits.validation)):
        mean, std = data.dataset.mean, data.dataset.std
        ((x, y),) = ordered(data.dataset.train, indices[:128], batch_size=128, mean=mean, std=std)
        for k, learner in enumerate(learners):
            for role, weights in (("V", learner.v), ("W", learner.w)):
                assert weights is not None
                with torch.no_grad():
                    logits = learner.logits(weights, learner.architecture, x, "val")
                found[f"{role} of learner {k} on {part}"] = float(torch.nn.functional.cross_entropy(logits, y))
    return found
