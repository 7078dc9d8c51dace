"""Training from scratch as a job: one network on its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smallgroup.data.training_data import TrainingData
from smallgroup.group import RankExchange
from smallgroup.phases.evaluate import Evaluation
from smallgroup.phases.sharing import telling
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.course import LabeledCourse
from smallgroup.phases.training.optimizer import AnyOptimizer
from smallgroup.phases.training.slices import RankSlices
from smallgroup.phases.training.trainee import Build, NonFiniteTrainingError, Response, Trainee
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network

__all__ = ["NonFiniteTrainingError", "TrainingJob"]


class TrainingJob(LabeledCourse):
    """A cell in its large network, trained on all training images.

    With an `exchange`, made for one learner per rank, all processes must make the same calls, and each computes a slice
    of every batch. Then all of them have the same network.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotype: Genotype,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        build: Build = build_network,
        exchange: RankExchange | None = None,
    ) -> None:
        self.trainee = Trainee(config, data, genotype, seed=seed, device=device, build=build)
        if exchange is not None and exchange.ranks > 1:
            synchronized = config.batch_norm == "synchronized"
            network = self.trainee.network
            self.trainee.slices = RankSlices(config.accumulate, exchange, network, synchronized=synchronized)
        super().__init__(config, data, [self.trainee], exchange)

    @property
    def network(self) -> DerivedNetwork:
        """Return the network that is trained."""
        return self.trainee.network

    @property
    def optimizer(self) -> AnyOptimizer:
        """Return the optimizer of its weights."""
        return self.trainee.optimizer

    def follow(self, answers: Sequence[Response], share: float) -> None:
        """Learn from the labels of the batch alone."""
        self.trainee.follow(answers[0], share=share, step=self.step)

    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """Return the rows of metrics of an epoch: one."""
        with telling(self.exchange):
            self.trainee.check_alike()
            row = self.trainee.row(epoch)
        if self.tracks_test:
            row["test_error"] = self.test().error
        return [row]

    def test(self) -> Evaluation:
        """Classify the test images, or the held-out ones, by the network as it is."""
        with telling(self.exchange):
            return self.trainee.test()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next step depends on."""
        tensors, record = self.trainee.state()
        return tensors, {**self.shared_state(), **record}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Restore the state that a checkpoint holds."""
        self.load_shared_state(record)
        self.trainee.load_state(tensors, record)
