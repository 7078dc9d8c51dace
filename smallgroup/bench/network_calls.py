"""A step of the training of a network, in both forms, ready to be called."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD

from smallgroup.bench.network_step import NetworkStep
from smallgroup.bench.timing import Call
from smallgroup.data import Augmentation
from smallgroup.data.dataset import Dataset
from smallgroup.data.images import TensorImages
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training.trainee import Trainee
from smallgroup.runtime import stream
from smallgroup.runtime.device import current
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs

CLASSES, CHANNELS = 10, 3
_SEED = 0


def plain_step(asked: NetworkStep) -> Call:
    """Return a training step written as in a textbook, in NCHW."""
    config, (images, labels) = asked.config, _batch(asked)
    design = config.network.design(ImageSpec(CLASSES, CHANNELS, asked.size), "darts")
    _, cell = resolve(asked.genotype)
    network = build_network(cell, design, generator=stream(_SEED, "evaluation", "weights"), device=current())
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


def fast_step(asked: NetworkStep) -> Call:
    """Return a step of the package's own training."""
    _, cell = resolve(asked.genotype)
    trainee = Trainee(asked.config, _data(asked.size), cell, seed=_SEED, device=current())
    images, labels = _batch(asked)
    step = 0

    def call() -> Sequence[Tensor | None]:
        nonlocal step
        trainee.begin(asked.config.epochs // 2)
        answer = trainee.answer(images.contiguous(memory_format=torch.channels_last), labels, step=step, part=0)
        trainee.follow(answer, share=1.0, step=step)
        trainee.check(step)
        trainee.commit()
        step += 1
        return [answer.loss.detach()]

    return call


def _batch(asked: NetworkStep) -> tuple[Tensor, Tensor]:
    images = torch.randn(asked.batch, CHANNELS, asked.size, asked.size, generator=stream("bench", "network"))
    labels = torch.randint(CLASSES, (asked.batch,), generator=stream("bench", "network", "labels"))
    return images.to(current()), labels.to(current())


def _data(size: int) -> TrainingData:
    """Return data that tell a network the shape of its images; none of the images is ever read."""
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
