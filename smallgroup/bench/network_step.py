"""A training step of a derived network, in both forms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD

from smallgroup.bench.timing import Call
from smallgroup.config import resolve as resolve_config
from smallgroup.data import Augmentation
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import TensorImages
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.trainee import Trainee
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs

CLASSES, CHANNELS = 10, 3
_SEED = 0
_HEAD = 8
"""The smallest images that leave room for an auxiliary head."""


@dataclass(frozen=True, kw_only=True)
class NetworkStep:
    """Forward, backward, clipping and SGD of the network around a cell, as `smallgroup train` does it half-way through.

    With auxiliary head and drop path as published, on random images.
    """

    genotype: str = "DARTS_V2"
    channels: int = 36
    cells: int = 20
    batch: int = 96
    size: int = 32

    def __post_init__(self) -> None:
        check_counts(channels=self.channels, cells=self.cells, batch=self.batch)
        check_counts(size=self.size, at_least=4)

    @property
    def name(self) -> str:
        """All sizes in a line."""
        return (
            f"network of {self.genotype}, C={self.channels}, {self.cells} cells, batch {self.batch}, "
            f"{self.size}x{self.size}, training"
        )

    @property
    def sizes(self) -> dict[str, Any]:
        """All of them."""
        return dict(vars(self))

    @property
    def config(self) -> TrainingConfig:
        """The published settings at this size."""
        auxiliary = "two-norms" if self.size >= _HEAD else "none"
        network = {"channels": self.channels, "cells": self.cells, "auxiliary": auxiliary}
        return resolve_config({"recipe": "paper", "training": {"network": network}}).training

    def plain(self) -> Call:
        """The loop of the textbook, in NCHW."""
        config, (images, labels) = self.config, self._batch()
        design = config.network.design(ImageSpec(CLASSES, CHANNELS, self.size), "darts")
        _, cell = resolve(self.genotype)
        network = build_network(cell, design, generator=stream(_SEED, "evaluation", "weights"))
        network.drop_path = config.drop(config.epochs // 2)
        network.train()
        optimizer = SGD(
            network.parameters(),
            lr=config.rate(config.epochs // 2),
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            foreach=False,
        )
        step = 0

        def call() -> Sequence[Tensor | None]:
            nonlocal step
            optimizer.zero_grad()
            outputs = Outputs.of(network(images, (_SEED, "evaluation", step, 0)))
            loss = functional.cross_entropy(outputs.logits, labels)
            total = loss
            if outputs.auxiliary is not None:
                total = loss + config.auxiliary_weight * functional.cross_entropy(outputs.auxiliary, labels)
            total.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip or float("inf"), foreach=False)
            optimizer.step()
            step += 1
            return [loss.detach()]

        return call

    def fast(self) -> Call:
        """What is trained in an evaluation."""
        _, cell = resolve(self.genotype)
        trainee = Trainee(self.config, _data(self.size), cell, seed=_SEED)
        images, labels = self._batch()
        step = 0

        def call() -> Sequence[Tensor | None]:
            nonlocal step
            trainee.begin(self.config.epochs // 2)
            answer = trainee.answer(images.contiguous(memory_format=torch.channels_last), labels, step=step, part=0)
            trainee.follow(answer, share=1.0, step=step)
            trainee.check(step)
            trainee.commit()
            step += 1
            return [answer.loss.detach()]

        return call

    def _batch(self) -> tuple[Tensor, Tensor]:
        images = torch.randn(self.batch, CHANNELS, self.size, self.size, generator=stream("bench", "network"))
        return images, torch.randint(CLASSES, (self.batch,), generator=stream("bench", "network", "labels"))


def _data(size: int) -> TrainingData:
    """What a network is told about its images; none of them is ever read."""
    nothing = TensorImages(torch.zeros(1, CHANNELS, size, size, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    dataset = Dataset(
        name="random images",
        classes=tuple(str(number) for number in range(CLASSES)),
        train=nothing,
        test=None,
        mean=(0.5,) * CHANNELS,
        std=(0.5,) * CHANNELS,
        channels=CHANNELS,
        size=size,
        augmentation=Augmentation.none(),
    )
    return TrainingData(dataset, Augmentation.none(), workers=0)
