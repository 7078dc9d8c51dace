"""`python -m tests.phases.training.slices_worker RANK FOLDER`: trainings whose batches are divided over processes."""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from smallgroup.data import DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.group import PeerError, RankExchange
from smallgroup.phases.training import TrainingJob
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.layers import Convolutions
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network
from tests.configs import training_config

RANKS = 3
CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
NETWORK = NetworkConfig(channels=4, cells=3, cells_per_stage=1, auxiliary="two-norms")
IMAGES = 52
"""Of a batch size of 24 per epoch: two batches of 24 and one of 4, of which three ranks can compute two parts."""
OPTIONS: dict[str, Any] = {"epochs": 2, "batch_size": 24, "network": NETWORK, "lr": 0.1, "weight_decay": 0.0, "clip": 5}
Exchange = RankExchange | None


def without_norms(*given: Any, **about: Any) -> DerivedNetwork:
    """A network without batch norms, so that an image does not depend on the others of its part."""
    network = build_network(*given, **about)
    for layer in list(network.modules()):
        if isinstance(layer, Convolutions):
            layer.stages = []
        if isinstance(layer, nn.Conv2d):
            layer.weight.data *= 2  # without norms little would come through
        for name, child in list(layer.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(layer, name, nn.Identity())
    return network


def job(exchange: Exchange, *, cell: str = CELL, build: Any = build_network, **options: Any) -> TrainingJob:
    config = training_config(**{**OPTIONS, **options})
    data = open_training_data(DataConfig(), config.augmentation, seed=1)
    data = replace(data, only=torch.arange(IMAGES), held_out=torch.arange(IMAGES, IMAGES + 230))
    return TrainingJob(config, data, resolve(cell)[1], seed=3, build=build, exchange=exchange)


def steps(training: TrainingJob, count: int) -> list[Any]:
    return [row for _ in range(count) for row in training.advance() or ()]


def weights_of(training: TrainingJob) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in training.network.named_parameters()}


def moved(training: TrainingJob, count: int) -> dict[str, Any]:
    """The network after some steps, metrics on the way, and what it says of the test images."""
    rows = steps(training, count)
    found = training.test()
    statistics = {name: tensor.flatten().tolist() for name, tensor in training.network.named_buffers()}
    measured = {"rows": rows, "test": [found.error, found.loss], "statistics": statistics}
    return {"weights": weights_of(training), **measured}


def plain(exchange: Exchange) -> Any:
    return moved(job(exchange, build=without_norms, average=0.9, label_smoothing=0.1), 6)


def adaptive(exchange: Exchange) -> Any:
    return moved(job(exchange, build=without_norms, optimizer="adamw", lr=0.003, schedule="one-cycle"), 2)


def same_parts(exchange: Exchange) -> Any:
    """Batch norms, an auxiliary head and drop path: six parts on any number of ranks."""
    return moved(job(exchange, cell="DARTS_V2", accumulate=6, drop_path=0.3), 1)


def synchronized(exchange: Exchange) -> Any:
    return moved(job(exchange, batch_norm="synchronized"), 3)


def per_device(exchange: Exchange) -> Any:
    return moved(job(exchange), 3)


def images(exchange: Exchange) -> Any:
    """What is read of every batch of an epoch here, as hashes of pixels after augmentation."""
    training = job(exchange)
    batches = [training.batches.batch(step) for step in range(3)]
    return [
        [[hashlib.sha256(x.numpy().tobytes()).hexdigest(), int(y)] for x, y in zip(*one, strict=True)]
        for one in batches
    ]


def looked_at(exchange: Exchange) -> Any:
    """The test images by a network whose running statistics are those of the beginning on all ranks."""
    found = job(exchange).test()
    return [found.loss, found.error, found.error_top5, found.confusion, found.wrong, found.confidence]


def resumed(exchange: Exchange) -> Any:
    """Saved by all ranks after a step of the second epoch, and taken up by one process."""
    first = job(exchange, build=without_norms)
    steps(first, 4)
    alone = job(None, build=without_norms)
    alone.load_state(*first.state())
    return moved(alone, 2)


def failing(spoil: Callable[[TrainingJob], None]) -> Callable[[Exchange], Any]:
    """A step that fails on the last rank, or in one process; then two that do not."""

    def carried_out(exchange: Exchange) -> Any:
        training = job(exchange, build=without_norms)
        before, read = weights_of(training), training._reader.batch
        if exchange is None or exchange.rank == exchange.ranks - 1:
            spoil(training)
        error = "none"
        try:
            training.advance()
        except (PeerError, FloatingPointError, OSError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        kept = weights_of(training) == before and training.step == 0
        training._reader.batch = read  # type: ignore[method-assign]
        return {"error": error, "unchanged": kept, **moved(training, 2)}

    return carried_out


def spoil_image(training: TrainingJob) -> None:
    read = training._reader.batch

    def spoiled(step: int) -> tuple[Tensor, Tensor]:
        x, y = read(step)
        return x * float("nan"), y

    training._reader.batch = spoiled  # type: ignore[method-assign]


def lose_disk(training: TrainingJob) -> None:
    def failing(_: int) -> tuple[Tensor, Tensor]:
        raise OSError("the disk is gone")

    training._reader.batch = failing  # type: ignore[method-assign,assignment]


CASES: dict[str, Callable[[Exchange], Any]] = {
    "plain": plain,
    "adaptive": adaptive,
    "same parts": same_parts,
    "synchronized": synchronized,
    "per device": per_device,
    "images": images,
    "looked at": looked_at,
    "resumed": resumed,
    "not finite": failing(spoil_image),
    "unreadable": failing(lose_disk),
}


def main(rank: int, folder: Path, names: Sequence[str], ranks: int = RANKS) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
    )
    groups = {size: distributed.new_group(list(range(size))) for size in range(2, ranks + 1)}
    chosen = {name: CASES[name] for name in names or CASES}
    found: dict[str, Any] = {}
    if rank == 0:
        found["1"] = {name: case(None) for name, case in chosen.items()}
    for size, group in groups.items():
        if rank < size:
            found[str(size)] = {name: case(RankExchange(size, group=group)) for name, case in chosen.items()}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
