"""Networks that are trained together, on the twin device: the numbers are the CPU's."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.data import DataConfig
from smallgroup.data.training_data import TrainingData, Views, open_group_data, open_training_data
from smallgroup.phases.training import GroupJob, MutualJob, Peers, TrainingConfig
from smallgroup.spaces.config import NetworkConfig
from smallgroup.testing import TwinDevice
from tests.configs import FULL_SIZE, training_config
from tests.phases.training.models import BENCHMARK, DARTS

SMALL = NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="none")
Job = GroupJob | MutualJob


def options(**changes: Any) -> TrainingConfig:
    own = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "network": SMALL, "drop_path": 0.3, "average": 0.9}
    return training_config(**{**own, **changes})


def taught(device: torch.device | str) -> GroupJob:
    config = options(validation=0.1, group={"learners": 2})
    own = config.group
    assert own is not None
    views = Views(own.weak, own.strong)
    data = open_group_data(
        DataConfig(unlabeled="split"), config.augmentation, seed=1, validation=config.validation, views=views
    )
    return GroupJob(config, data, (BENCHMARK, DARTS), seed=3, device=device)


def mutual(device: torch.device | str) -> MutualJob:
    config = options()
    data: TrainingData = open_training_data(DataConfig(), config.augmentation, seed=1)
    return MutualJob(config, data, Peers((BENCHMARK, DARTS), 1.0), seed=3, device=device)


@pytest.mark.parametrize("make", [taught, mutual])
def test_networks_that_teach_one_another(make: Any, twin: TwinDevice) -> None:
    found: list[dict[str, Tensor]] = []
    for device in ("cpu", twin.device):
        job: Job = make(device)
        while not job.finished:
            rows = job.advance()
        assert rows
        tensors, record = copy.deepcopy(job.state())
        found.append({name: tensor.cpu() for name, tensor in tensors.items()})
        again: Job = make(device)
        again.load_state(tensors, record)
        left, right = job.state()[0], again.state()[0]
        assert all(torch.equal(left[name].cpu(), right[name].cpu()) for name in left)
        assert {tensor.device for tensor in right.values() if tensor.dim()} == {torch.device(device)}
    expected, there = found
    assert expected.keys() == there.keys()
    for name, tensor in expected.items():
        assert torch.allclose(tensor.double(), there[name].double(), rtol=1e-3, atol=1e-4), name
