"""A search as a job: what a step is, what an epoch leaves behind, and the state between two steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from smallgroup.data import SearchData
from smallgroup.group import SmallGroup, StepReport
from smallgroup.group.snapshot import Snapshot
from smallgroup.methods import Method, Progress
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.search.learners import make_searcher
from smallgroup.phases.search.metrics import EpochMetrics
from smallgroup.spaces import Space


class SearchJob:
    """K learners with a space and a method each, on one set of data.

    `numbers` say whose random numbers a learner has; by default 0, 1, ... A learner alone with number k begins as, and
    without teaching stays, what learner k of a group is.
    """

    def __init__(
        self,
        config: SearchConfig,
        data: SearchData,
        learners: Sequence[tuple[Space, Method]],
        *,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.config, self.data = config, data
        sizes = config.batch_size
        self.train, self.validation = data.train(sizes.train, seed), data.validation(sizes.validation, seed)
        self.unlabeled = data.without_labels(sizes.unlabeled, seed)
        self.searchers = [
            make_searcher(space, method, config, seed=seed, number=k)
            for k, (space, method) in zip(numbers or range(len(learners)), learners, strict=True)
        ]
        self.group = SmallGroup(
            [searcher.learner for searcher in self.searchers],
            lam=config.lam,
            hypergradient=config.hypergradient,
            label_path=config.label_path,
            radius=config.radius,
            optimizers=[searcher.optimizers for searcher in self.searchers],
            labels_from=config.labels_from,
            targets=config.targets,
            human_labels=config.human_labels,
        )
        self.steps_per_epoch = config.steps_per_epoch or len(self.train)
        self.steps = config.epochs * self.steps_per_epoch
        self.metrics = EpochMetrics(self.searchers, data)

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return self.group.steps

    @property
    def finished(self) -> bool:
        """Whether there is no step left."""
        return self.step >= self.steps

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """One step; at the end of an epoch its metrics, a row per learner."""
        progress = self.progress
        for searcher in self.searchers:
            searcher.set_weight_rate(self.config.weights.rate(progress.epoch, self.config.epochs))
            searcher.relaxed.method.schedule(progress)
        self.metrics.note(self._take_step(progress))
        if self.step % self.steps_per_epoch:
            return None
        return self.metrics.rows(progress.epoch)

    def _take_step(self, progress: Progress) -> StepReport:
        train, step = self.train.batch(self.step), self.step
        if step < int(self.config.v_warmup * self.steps) and self.group.setting.teaching.trains_v:
            return self.group.step_labellers(train)
        moves = step >= int(self.config.architecture_warmup * self.steps) and all(
            searcher.relaxed.method.trains_architecture(progress) for searcher in self.searchers
        )
        unlabeled = self.unlabeled.batch(step) if self.group.setting.teaching.active else None
        validation = self.validation.batch(step) if moves else None
        if self.config.order == "a-v-w" and validation is not None:
            return self._architectures_first(train, unlabeled, validation)
        return self.group.step(train, unlabeled, validation)

    def _architectures_first(
        self, train: tuple[Tensor, Tensor], unlabeled: Tensor | None, validation: tuple[Tensor, Tensor]
    ) -> StepReport:
        """A, then V and W: two steps of the group, of which both happen or none."""
        saved = Snapshot(self.group.learners, self.group.optimizers, with_v=False)
        first = self.group.step_architectures(validation)
        try:
            second = self.group.step(train, unlabeled, None)
        except BaseException:
            saved.restore()
            raise
        return _merged(first, second)

    @property
    def progress(self) -> Progress:
        """Where the search stands."""
        return Progress(
            epoch=min(self.step // self.steps_per_epoch, self.config.epochs - 1),
            epochs=self.config.epochs,
            step=self.step,
            steps=self.steps,
        )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        tensors = {
            f"{k}.{name}": tensor
            for k, searcher in enumerate(self.searchers)
            for name, tensor in searcher.state().items()
        }
        return tensors, {"step": self.step, "metrics": self.metrics.state()}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up a saved state."""
        for k, searcher in enumerate(self.searchers):
            own = f"{k}."
            searcher.load_state({name.removeprefix(own): t for name, t in tensors.items() if name.startswith(own)})
        self.group.steps = int(record["step"])
        self.metrics.load_state(record["metrics"])


def _merged(architectures: StepReport, weights: StepReport) -> StepReport:
    """One report of a step that was taken in two parts."""
    parts = zip(architectures.learners, weights.learners, strict=True)
    learners = [
        replace(after, validation_loss=before.validation_loss, terms=before.terms, gradient=before.gradient)
        for before, after in parts
    ]
    return StepReport(weights.step, learners)
