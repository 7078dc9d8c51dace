"""The part of a config that is about the course of a search."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_FROZEN = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class BatchSizes(BaseModel):
    """Images per step from each of the three streams."""

    model_config = _FROZEN

    train: int = Field(default=64, ge=2)
    unlabeled: int = Field(default=64, ge=2)
    validation: int = Field(default=64, ge=2)


class WeightsConfig(BaseModel):
    """How V and W are stepped: SGD whose rate falls from epoch to epoch along a cosine."""

    model_config = _FROZEN

    lr: float = Field(default=0.025, gt=0)
    min_lr: float = Field(default=0.001, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=3e-4, ge=0)
    clip: float | None = Field(default=5.0, gt=0)
    """Largest L2 norm of a gradient; None: any."""

    def rate(self, epoch: int, epochs: int) -> float:
        """min + (lr - min) (1 + cos(pi e / E)) / 2: the full rate in the first epoch."""
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * epoch / epochs)) / 2


class ArchitectureConfig(BaseModel):
    """How A is stepped: Adam; what is None is the method's own."""

    model_config = _FROZEN

    lr: float | None = Field(default=None, gt=0)
    betas: tuple[float, float] | None = None
    weight_decay: float | None = Field(default=None, ge=0)
    clip: float | None = Field(default=None, gt=0)


class SearchConfig(BaseModel):
    """The course of a search."""

    model_config = _FROZEN

    epochs: int = Field(default=10, ge=1)
    steps_per_epoch: int | None = Field(default=None, ge=1)
    """None: one pass over the training images."""
    batch_size: BatchSizes = BatchSizes()
    lam: float = Field(default=1.0, ge=0, alias="lambda")
    """The weight of the peers' labels."""
    hypergradient: Literal["first-order", "finite-difference", "exact"] = "finite-difference"
    radius: float = Field(default=0.01, gt=0)
    """Length of the probes of finite differences."""
    label_path: bool = True
    """Whether labels are differentiated also in the architecture that makes them; the paper does not."""
    order: Literal["v-w-a", "a-v-w"] = "v-w-a"
    """The paper's order of stages, or that of the circulating code (architectures first, where the weights stand)."""
    v_warmup: float = Field(default=0.0, ge=0, lt=1)
    """Share of the steps in which V alone is trained: labels of an untrained V are mere smoothing."""
    architecture_warmup: float = Field(default=0.0, ge=0, lt=1)
    """Share of the steps before the architecture moves."""
    weights: WeightsConfig = WeightsConfig()
    architecture: ArchitectureConfig = ArchitectureConfig()
    labels_from: Literal["v", "w", "w-joint"] = "v"
    """Who makes the labels; `w` and `w-joint` are the ablation without first stage."""
    targets: Literal["peers", "own", "uniform"] = "peers"
    """`own` and `uniform` are controls in which nobody teaches anybody."""
    human_labels: bool = True
    """False: the ablation in which W learns from peers alone."""
