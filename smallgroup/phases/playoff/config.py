"""The part of a config that is about the play-off between candidate cells."""

from pydantic import Field

from smallgroup.phases.training.config import TrainingConfig
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.section import Section
from smallgroup.spaces.config import NetworkConfig


class PlayOffConfig(Section):
    """The comparison of candidate cells by short trainings from scratch, of which the better half continues."""

    candidates: int = Field(ge=1, le=MOST["candidates"])
    """Most candidates: each learner's cell, the consensus, then cells with the next best operations by score."""
    least_steps: int = Field(ge=1, le=MOST["steps_per_epoch"])
    """Steps of a candidate before the first comparison; there are fewer candidates where the time is not enough."""
    steps_per_search_step: float = Field(gt=0, le=1000)
    """Steps of all candidates together, for each step of the search."""
    seconds: float | None = Field(default=None, gt=0)
    """CPU seconds of all candidates together, in place of steps: then a light cell takes more steps in its seconds."""
    batch_size: int = Field(default=64, ge=2, le=MOST["batch_size"])
    """Images per step of a candidate."""
    lr: float = Field(default=3e-3, gt=0)
    """Learning rate of AdamW; it does not change, so that trainings can be compared at any time."""
    weight_decay: float = Field(default=0.05, ge=0)
    """Weight decay of all weights."""
    average: float = Field(default=0.98, ge=0, lt=1)
    """Decay per step of the moving average of the weights, by which candidates are compared."""
    network: NetworkConfig
    """The network around a candidate."""

    @property
    def training(self) -> TrainingConfig:
        """Return the config of a candidate's training."""
        return TrainingConfig(
            epochs=1,  # a constant rate knows no end
            batch_size=self.batch_size,
            least_steps=None,
            network=self.network,
            optimizer="adamw",
            lr=self.lr,
            min_lr=0.0,
            schedule="constant",
            weight_decay=self.weight_decay,
            average=self.average,
            validation=0.0,
            clip=5.0,
            label_smoothing=0.0,
            drop_path=0.0,
        )
