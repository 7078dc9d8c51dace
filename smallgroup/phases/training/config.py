"""The part of a config that is about training the found cell from scratch.

Keys without a default here have theirs in the recipe `quick`, and every recipe names them.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, model_validator

from smallgroup.data.config import AugmentationConfig
from smallgroup.phases.training.group_config import GroupConfig
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.section import Section
from smallgroup.spaces.config import NetworkConfig

RISE, START = 0.25, 0.04
"""The share of a one-cycle schedule in which the rate rises, and the share of lr it begins at."""
LAST = 5
"""Epochs at the end of the linear schedule in which the rate is a fifth of the line."""


@dataclass(frozen=True)
class Limits:
    """Limits on the size of a network; None means no limit."""

    parameters: int | None = None
    multiply_adds: int | None = None
    flash_kb: float | None = None
    """Weights and constants in int8, in units of 1,024 bytes."""
    ram_kb: float | None = None
    """Peak of live activations in int8, in units of 1,024 bytes."""
    latency_ms: float | None = None
    """Milliseconds for one image on this machine, measured with onnxruntime on one thread."""

    def __bool__(self) -> bool:
        return any(limit is not None for limit in vars(self).values())

    @property
    def on_memory(self) -> bool:
        """Whether flash or RAM is limited."""
        return self.flash_kb is not None or self.ram_kb is not None

    @property
    def counted(self) -> "Limits":
        """The limits that are counted, not measured."""
        return replace(self, latency_ms=None)

    def __str__(self) -> str:
        return " and ".join(in_words(name, limit) for name, limit in vars(self).items() if limit is not None)


def in_words(name: str, amount: float) -> str:
    """Say how much of what a limit is on: `12,000 parameters`, `64.0 KB of flash`."""
    words = {"parameters": "parameters", "multiply_adds": "multiply-adds"}
    if name in words:
        return f"{amount:,} {words[name]}"
    if name == "latency_ms":
        return f"{amount:,.3g} ms of latency"
    return f"{amount:,.1f} KB of {'flash' if name == 'flash_kb' else 'RAM'} (int8)"


class TrainingConfig(Section):
    """The training of a network from scratch, on training and validation images together."""

    epochs: int = Field(ge=1, le=MOST["epochs"])
    """Number of passes over the images; learning rate and drop path change after each."""
    steps_per_epoch: int | None = Field(default=None, ge=1, le=MOST["steps_per_epoch"])
    """Steps of an epoch; null: one pass over the training images."""
    batch_size: int = Field(ge=2, le=MOST["batch_size"])
    """Images per step."""
    least_steps: int | None = Field(ge=1, le=MOST["steps_per_epoch"])
    """With a time budget, choose the largest network that leaves time for this many steps; null: keep its size."""
    accumulate: int = Field(default=1, ge=1, le=MOST["batch_size"])
    """Into how many parts a batch is divided, one after the other, where it does not fit into memory. Over ranks the
    parts of a batch are dealt to them, at least one each."""
    batch_norm: Literal["per-device", "synchronized"] = "per-device"
    """Over ranks: whether a batch norm normalizes each part of a batch by itself, or by the images on all ranks."""
    network: NetworkConfig
    """The network around the cell."""
    optimizer: Literal["sgd", "adamw"]
    """Optimizer of the weights: SGD with momentum, or AdamW."""
    lr: float = Field(gt=0)
    """Largest learning rate: that of the first epoch after warm-up."""
    min_lr: float = Field(ge=0)
    """Learning rate that the cosine falls to."""
    schedule: Literal["cosine", "linear", "one-cycle", "constant"]
    """How the rate changes: cosine and linear (ImageNet's, with five slow epochs at the end) fall from epoch to epoch;
    one-cycle changes with every step: it rises to lr in the first quarter of the steps, then falls along a cosine."""
    warmup_epochs: int = Field(default=0, ge=0, le=MOST["epochs"])
    """Epochs in which the rate rises to lr in equal steps; one-cycle has its own rise."""
    warmup_rate: Literal["full", "decayed"] = "full"
    """What warm-up takes a growing share of: lr, or the rate that the schedule already gives that epoch."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD; AdamW has its usual betas, 0.9 and 0.999."""
    weight_decay: float = Field(ge=0)
    """Weight decay of all weights; AdamW's is decoupled from the gradient."""
    average: float = Field(ge=0, lt=1)
    """Decay per step of the moving average of the weights, which is tested and kept in their place; 0: no average."""
    validation: float = Field(ge=0, le=0.5)
    """Share of the training images that is not trained on but measured after every epoch: a validation curve."""
    clip: float | None = Field(gt=0)
    """Largest L2 norm of the gradient; null: any."""
    label_smoothing: float = Field(ge=0, lt=1)
    """Share of each label that is spread over all classes, in training."""
    auxiliary_weight: float = Field(default=0.4, ge=0)
    """Weight of the loss of the auxiliary head."""
    drop_path: float = Field(ge=0, lt=1)
    """Probability with which an operation is left out, growing linearly from 0; only in spaces that drop paths."""
    augmentation: AugmentationConfig = AugmentationConfig()
    """Departures from the augmentation of the data, such as cutout."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """What is computed in; the weights are float32 in any case."""
    max_parameters: int | None = Field(default=None, ge=1)
    """Limit on parameters: a larger network is replaced by the largest around the same cell that fits."""
    max_multiply_adds: int | None = Field(default=None, ge=1)
    """Limit on multiply-adds per image; likewise."""
    max_flash_kb: float | None = Field(default=None, gt=0)
    """Limit on KB of flash for weights and constants in int8; likewise."""
    max_ram_kb: float | None = Field(default=None, gt=0)
    """Limit on KB of RAM for live activations of one image in int8, in the best order; likewise."""
    max_latency_ms: float | None = Field(default=None, gt=0)
    """Limit on milliseconds for one image, measured on this machine with onnxruntime, one thread, float32; likewise."""
    track_test: bool = False
    """Whether to measure the test error after every epoch; the result records it."""
    group: GroupConfig | None = None
    """Networks that are trained together and teach one another on unlabeled images; null: one network, on labels."""

    @model_validator(mode="after")
    def _group_can_train(self) -> "TrainingConfig":
        if self.group is None:
            return self
        if self.group.learners > 1 and not self.validation:
            raise ValueError(
                "validation must be above 0 where several networks are trained, because the best one is "
                "chosen by its loss on those images, but it is 0"
            )
        if self.accumulate > 1:
            raise ValueError(f"accumulate must be 1 where a group is trained, but it is {self.accumulate}")
        if self.precision == "float16":
            raise ValueError("precision must be float32 or bfloat16 where a group is trained, but it is float16")
        return self

    @property
    def limits(self) -> Limits:
        """How large the network may be."""
        return Limits(
            self.max_parameters, self.max_multiply_adds, self.max_flash_kb, self.max_ram_kb, self.max_latency_ms
        )

    def rate(self, epoch: int, passed: float = 0.0) -> float:
        """Return the learning rate of an epoch; in one-cycle it depends on the share of the epoch too."""
        if self.schedule == "one-cycle":
            return self._one_cycle((epoch + passed) / self.epochs)
        if epoch >= self.warmup_epochs:
            return self._scheduled(epoch)
        top = self.lr if self.warmup_rate == "full" else self._scheduled(epoch)
        return top * (epoch + 1) / self.warmup_epochs

    def _one_cycle(self, progress: float) -> float:
        """Return the learning rate after a share of the training."""
        if progress < RISE:
            return self.lr * (START + (1 - START) * progress / RISE)
        falling = (progress - RISE) / (1 - RISE)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * falling)) / 2

    def _scheduled(self, epoch: int) -> float:
        """Return the learning rate of an epoch without warm-up."""
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "cosine":
            return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        last = min(LAST, self.epochs - 1)
        line, left = self.epochs - last, self.epochs - epoch
        return self.lr * (left - last) / line if left > last else self.lr * left / (last * line)

    def drop(self, epoch: int) -> float:
        """Return the probability of drop path in an epoch."""
        return self.drop_path * epoch / self.epochs
