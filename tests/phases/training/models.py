"""Tiny models, trained for a few steps: what there is to export, to load and to ask."""

from pathlib import Path

import torch
from torch import Tensor, nn

from smallgroup.data import DataConfig, Images, ordered
from smallgroup.data.training_data import TrainingData, open_training_data
from smallgroup.phases.training import TrainingJob, TrainResult
from smallgroup.phases.training.result import conclude
from smallgroup.runner import Runner
from smallgroup.runtime.environment import Environment
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.nas_bench_201.cell import Cell
from tests.configs import FULL_SIZE, training_config

_NORMAL = (
    (Edge("sep_conv_3x3", 0), Edge("dil_conv_5x5", 1)),
    (Edge("skip_connect", 0), Edge("max_pool_3x3", 2)),
    (Edge("skip_connect", 1), Edge("skip_connect", 2)),
    (Edge("avg_pool_3x3", 0), Edge("skip_connect", 4)),
)
_REDUCE = (
    (Edge("max_pool_3x3", 0), Edge("skip_connect", 1)),
    (Edge("avg_pool_3x3", 0), Edge("dil_conv_3x3", 1)),
    (Edge("skip_connect", 2), Edge("skip_connect", 3)),
    (Edge("max_pool_3x3", 1), Edge("skip_connect", 4)),
)
DARTS = DartsGenotype(CellGenotype(_NORMAL, (2, 3, 4, 5)), CellGenotype(_REDUCE, (2, 3, 4, 5)))
"""Pools, dilated and separable convolutions, and skips of either kind of cell."""
BENCHMARK = Cell.parse("|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_1x1~2|")
"""Each of the five operations."""
GENOTYPES: dict[str, Genotype] = {"darts": DARTS, "nas-bench-201": BENCHMARK}

CONFIG = training_config(
    epochs=1,
    batch_size=32,
    lr=0.1,
    network=NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="none"),
)


def train(
    folder: Path, genotype: Genotype, dataset: str = "digits", steps: int = 120
) -> tuple[TrainingData, TrainResult]:
    """A training as the command runs it, with its model and result in the folder."""
    config = CONFIG.model_copy(update={"steps_per_epoch": steps})
    data = open_training_data(DataConfig(dataset=dataset), config.augmentation, seed=1)
    job = TrainingJob(config, data, genotype, seed=0)
    seconds = Runner(folder, identity={}, environment=Environment.current("plain")).run(job)
    return data, conclude(job, seconds=seconds, folder=folder)


def logits_of(network: nn.Module, images: Images, data: TrainingData) -> Tensor:
    """As the test images are evaluated."""
    dataset, everything = data.dataset, torch.arange(len(images))
    batches = ordered(images, everything, batch_size=100, mean=dataset.mean, std=dataset.std)
    with torch.no_grad():
        return torch.cat([network(x.contiguous(memory_format=torch.channels_last)) for x, _ in batches])
