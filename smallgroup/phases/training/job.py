"""Training from scratch as a job: one network on its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smallgroup.data.training_data import TrainingData
from smallgroup.phases.evaluate import Evaluation
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.course import LabeledCourse
from smallgroup.phases.training.optimizer import AnyOptimizer
from smallgroup.phases.training.trainee import Build, NonFiniteTrainingError, Response, Trainee
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network

__all__ = ["NonFiniteTrainingError", "TrainingJob"]


class TrainingJob(LabeledCourse):
    """A cell in its large network, trained on all training images."""

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotype: Genotype,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        build: Build = build_network,
    ) -> None:
        self.trainee = Trainee(config, data, genotype, seed=seed, device=device, build=build)
        super().__init__(config, data, [self.trainee])

    @property
    def network(self) -> DerivedNetwork:
        """What is trained."""
        return self.trainee.network

    @property
    def optimizer(self) -> AnyOptimizer:
        """What moves its weights."""
        return self.trainee.optimizer

    def follow(self, answers: Sequence[Response], share: float) -> None:
        """The labels are all there is to learn from."""
        self.trainee.follow(answers[0], share=share, step=self.step)

    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """One row."""
        row = self.trainee.row(epoch)
        if self.tracks_test:
            row["test_error"] = self.test().error
        return [row]

    def test(self) -> Evaluation:
        """The test images, or the held-out ones, classified by the network as it stands."""
        return self.trainee.test()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        tensors, record = self.trainee.state()
        return tensors, {**self.shared_state(), **record}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up a saved state."""
        self.load_shared_state(record)
        self.trainee.load_state(tensors, record)
