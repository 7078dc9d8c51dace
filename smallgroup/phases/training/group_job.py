"""Networks with given cells that are trained as a group: the paper's first two stages as a job.

The steps are those of `SmallGroup` with empty architectures. V_k learns from human labels and labels the weak view of
unlabeled images; W_k learns from human labels and, on the strong view, from the labels of its peers. W is what is
tested and kept.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from smallgroup.data.training_data import TrainingData
from smallgroup.group import SmallGroup
from smallgroup.group.tasks.classification import Classification
from smallgroup.phases.passes import FORWARD, PassTime
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.course import SeveralNetworks
from smallgroup.phases.training.group_config import GroupConfig
from smallgroup.phases.training.taught import TaughtTrainee
from smallgroup.phases.training.trainee import Build, Trainee
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.networks import build_network


class GroupJob(SeveralNetworks):
    """Networks around given cells that teach one another on unlabeled images.

    Each has initial weights and drop path of its own, which depend on the seed and its place alone. With lambda 0
    nobody teaches, and learner 0 is trained as in a `TrainingJob`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotypes: Sequence[Genotype],
        *,
        seed: int,
        device: torch.device | str = "cpu",
        build: Build = build_network,
    ) -> None:
        own = config.group
        if own is None:
            raise ValueError("a group is trained with the section training.group, but it is null")
        if len(genotypes) != own.learners:
            raise ValueError(
                f"a group must have a cell per learner, but got {len(genotypes)} cells for {own.learners} learners"
            )
        if own.learners > 1 and data.validation is None:
            raise ValueError(
                "the best network of a group is chosen by its loss on validation images, but there are none: "
                f"every class of {data.dataset.name} must have 2 images at least"
            )
        teaching = own.teaching
        self.own: GroupConfig = own
        self.taught = [
            TaughtTrainee(
                config, data, genotype, seed=seed, learner=k, trains_v=teaching.trains_v, device=device, build=build
            )
            for k, genotype in enumerate(genotypes)
        ]
        super().__init__(config, data, self.taught)
        self.group = SmallGroup(
            [trainee.learner for trainee in self.taught],
            lam=own.lam,
            hypergradient="first-order",
            optimizers=[trainee.optimizers for trainee in self.taught],
            labels_from=own.labels_from,
            targets=own.targets,
            task=Classification(
                temperature=own.temperature, confidence=own.confidence, label_smoothing=config.label_smoothing
            ),
        )
        size = own.batch_size or config.batch_size
        self._unlabeled = data.two_views(size, self.seed, device) if own.needs_unlabeled else None

    @property
    def lam(self) -> float:
        """Return lambda in the next step."""
        return self.own.lam_at(self.step, self.steps)

    def learn(self, images: Tensor, labels: Tensor) -> None:
        """Take stages 1 and 2 of a step; the architectures are fixed."""
        self.group.steps, taught = self.step, None
        if self.own.teaching.active:
            self.group.lam = self.lam
            taught = images if self._unlabeled is None else self._unlabeled.batch(self.step)
        report = self.group.step((images, labels), taught, None)
        for trainee, one in zip(self.taught, report.learners, strict=True):
            trainee.note(one, labels)

    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """Return one row per learner, with lambda in the last step of the epoch."""
        last = (epoch + 1) * self.steps_per_epoch - 1
        lam = self.own.lam_at(last, self.steps) if self.own.teaching.active else 0.0
        return [{**row, "lambda": lam} for row in super().rows(epoch)]

    def reckoned(self, measured: Callable[[Trainee], PassTime] | None = None) -> float:
        """Estimate the seconds of the whole training: a step has more passes than that of one network alone."""
        alone = super().reckoned(measured)
        return alone * self.own.passes(self.config.batch_size) / (self.own.learners * self.config.batch_size / FORWARD)

    def close(self) -> None:
        """End the processes that read images."""
        super().close()
        if self._unlabeled is not None:
            self._unlabeled.close()
