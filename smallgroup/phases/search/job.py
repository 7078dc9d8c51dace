"""A search as a job: what a step is, what an epoch leaves behind, and the state between two steps."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup import kernels
from smallgroup.data import Reader, SearchData
from smallgroup.data.errors import check_same_data
from smallgroup.group import Exchange, LocalExchange, SmallGroup, StepReport
from smallgroup.group.learner import Labeler
from smallgroup.group.tasks.classification import Classification, log_mixture
from smallgroup.group.teaching import LabelsFrom, Teaching
from smallgroup.methods import Decision, EpochEnd, Method, Rebuild, Rollback, Stop
from smallgroup.methods.relaxed import on_host
from smallgroup.phases.search.ahead import DrawsAhead
from smallgroup.phases.search.answer import check_answer
from smallgroup.phases.search.checked import CheckedClassification, check_labels
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.search.labelers import Labelers, check_same_labelers
from smallgroup.phases.search.learners import Searcher, make_searcher, of_learner
from smallgroup.phases.search.marks import Marks
from smallgroup.phases.search.metrics import EpochMetrics
from smallgroup.phases.search.schedule import Course, StepKind, schedule_of
from smallgroup.phases.search.sharing import check_same_decisions, share_learners
from smallgroup.phases.sharing import meeting, telling
from smallgroup.runtime import precision
from smallgroup.runtime.memory import check_batch
from smallgroup.spaces import Space
from smallgroup.spaces.ground_truth import GroundTruths


class SearchJob:
    """K learners with a space and a method each, on one set of data.

    `numbers` say whose random numbers a learner has; by default 0, 1, ... A learner alone with number k begins as, and
    without teaching stays, what learner k of a group is. `truth` is written beside the metrics and used for nothing.
    `labelers` make the labels in place of V. Weights, architectures and batches lie on `device`.

    With an `exchange` other processes compute some of the learners. Then all processes must make the same calls; the
    end of an epoch and `state` bring all learners here.
    """

    def __init__(
        self,
        config: SearchConfig,
        data: SearchData,
        learners: Sequence[tuple[Space, Method]],
        *,
        seed: int,
        numbers: Sequence[int] | None = None,
        truth: GroundTruths | None = None,
        labelers: Labelers | None = None,
        device: torch.device | str = "cpu",
        exchange: Exchange | None = None,
    ) -> None:
        check_answer(config.answer, learners)
        self.config, self.data, self.labelers = config, data, labelers
        self.device = torch.device(device)
        check_labels(data)
        self._exchange = LocalExchange(len(learners)) if exchange is None else exchange
        self._shared = False
        """Whether no step was taken since all learners were brought here."""
        sizes = config.batch_size
        check_batch(
            max(sizes.train, sizes.unlabeled, sizes.validation),
            data.dataset.channels,
            data.dataset.size,
            max(getattr(space, "channels", 0) for space, _ in learners),
        )
        self.train = data.train(sizes.train, seed, self.device)
        self.validation = data.validation(sizes.validation, seed, self.device)
        self.unlabeled = data.without_labels(sizes.unlabeled, seed, self.device)
        self._read_train, self._read_validation = Reader(self.train), Reader(self.validation)
        self._read_unlabeled = Reader(self.unlabeled)
        teaching = Teaching(len(learners), config.lam, self._labels_from, config.targets, config.human_labels)
        per_epoch = config.steps_per_epoch or len(self.train)
        self.searchers = [
            make_searcher(
                space,
                method,
                schedule_of(config, per_epoch, teaching, method),
                seed=seed,
                number=k,
                device=self.device,
            )
            for k, (space, method) in zip(numbers or range(len(learners)), learners, strict=True)
        ]
        self.course = Course([searcher.schedule for searcher in self.searchers])
        self.group = self._grouped()
        self.metrics = EpochMetrics(
            self.searchers, data, truth, with_v=self.course.teaches, unlabeled_of=self.unlabeled.indices_of
        )
        self._ahead = DrawsAhead()
        self.epochs_done = 0
        self.repeated = 0
        """Steps that were taken back, because a method went back to an earlier epoch."""
        self.marks = Marks(max(searcher.relaxed.method.reach for searcher in self.searchers))
        self.seconds: dict[str, float] = {}
        """Where the time went since the job was made: by stage of the steps, and the looks at the ends of epochs."""

    def _grouped(self, steps: int = 0) -> SmallGroup:
        """Build a group of the learners as they are now, after so many steps."""
        config = self.config
        task = Classification if self.device.type == "cpu" else CheckedClassification
        group = SmallGroup(
            [searcher.learner for searcher in self.searchers],
            lam=config.lam,
            hypergradient=config.hypergradient,
            label_path=config.label_path,
            radius=config.radius,
            optimizers=[searcher.optimizers for searcher in self.searchers],
            labels_from=self._labels_from,
            targets=config.targets,
            human_labels=config.human_labels,
            task=task(temperature=config.label_temperature, confidence=config.label_confidence),
            exchange=self._exchange,
        )
        group.steps = steps
        return group

    @property
    def _labels_from(self) -> LabelsFrom | Sequence[Labeler]:
        return self.config.labels_from if self.labelers is None else self.labelers.frozen

    @property
    def step(self) -> int:
        """How many steps were taken, those that were taken back among them."""
        return self.position + self.repeated

    @property
    def position(self) -> int:
        """Where the search stands in its schedule, in steps: what is done next is a function of it."""
        return self.group.steps

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: the steps are taken, or every method has ended its search."""
        over = self.position >= self.course.steps or all(searcher.ended for searcher in self.searchers)
        return over and not self._epoch_is_over

    @property
    def _epoch_is_over(self) -> bool:
        """Whether the steps of an epoch are taken, but what it leaves behind is not there yet."""
        return self.position == (self.epochs_done + 1) * self.course.steps_per_epoch

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the images that are used."""
        return self.data.notes if self.group.setting.teaching.active else self.data.labeled_notes

    def close(self) -> None:
        """End the processes that read images."""
        for reader in (self._read_train, self._read_validation, self._read_unlabeled):
            reader.close()

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """Take one step; at the end of an epoch return its metrics, a row per learner."""
        step = self._current
        with telling(self._exchange):
            for searcher in self.searchers:
                searcher.prepare(step)
        if not self._epoch_is_over:  # it is, if an earlier attempt failed after the step: then the rest is made up for
            # Where architectures move first, the other passes of the step draw by what they have become.
            if self.config.order == "v-w-a" or self.course.kind(step) != "all":
                self._ahead.send(self.searchers, self.position)
            report = self._take_step(step)
            # The others are told if they meet here again before they end the step.
            with telling(self._exchange) if self._epoch_is_over else nullcontext():
                self._ahead.note(self.metrics.note(report, self._ahead.wanted(self.searchers)))
            for stage, seconds in report.seconds.items():
                self._count(f"stage {stage}", seconds)
        if not self._epoch_is_over:
            return None
        start = time.perf_counter()
        self._ahead.forget()  # a method may change its architecture now
        self._share()
        rows = self.metrics.rows(step // self.course.steps_per_epoch, self._exchange)
        went_back = self.decide(step, rows)
        self._count("evaluation", time.perf_counter() - start)
        if not went_back:
            self.metrics.clear()
            self.epochs_done += 1
            if self.marks.reach:
                self.marks.note(self.epochs_done - 1, *self._own_state())
        return rows

    def _share(self) -> None:
        """Bring learners here that are computed elsewhere, if they have moved since."""
        if not self._shared:
            share_learners(self._exchange, self.searchers, self.metrics)
            self._shared = True

    def leave_out(self) -> bool:
        """Count a step that failed as taken: the batch of the next one is another."""
        if self._epoch_is_over:  # then it was no batch that failed
            return False
        self.group.steps += 1
        return True

    def _count(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def _take_step(self, step: int) -> StepReport:
        kind = self.course.kind(step)
        moving = [searcher.moves(step) for searcher in self.searchers]
        return self.take(kind if any(moving) or kind != "all" else "weights", moving)

    def take(self, kind: StepKind, moving: Sequence[bool] | None = None) -> StepReport:
        """Take a step of the group that moves V alone, V and W, or also the architectures of those `moving`."""
        self._shared = False
        with telling(self._exchange):
            train = self._read_train.batch(self.position)
            unlabeled = validation = None
            if kind != "labelers" and self.group.setting.teaching.active:
                unlabeled = self._read_unlabeled.batch(self.position)
            if kind == "all":
                validation = self._read_validation.batch(self.position)
            if kind != "labelers":
                self.group.lam = self.course.lam(self.position)
        if kind == "labelers":
            return self.group.step_labelers(train)
        return self.group.step(
            train,
            unlabeled,
            validation,
            order=self.config.order,
            clip_look_ahead=self.config.clip_lookahead,
            moving=moving,
        )

    def decide(self, step: int, rows: Sequence[dict[str, Any]]) -> bool:
        """Let the methods look at an epoch, and do what they ask for; if one fails, nobody has decided anything.

        Whether the search went back to an earlier epoch: then all learners did, and what others asked for is undone.
        """
        deciding = [k for k, searcher in enumerate(self.searchers) if searcher.watches_epochs and not searcher.ended]
        before = {k: self.searchers[k].relaxed.marked() for k in deciding}
        try:
            with meeting(self._exchange):
                decisions = {k: self._decision(self.searchers[k], step, rows[k]) for k in deciding}
                rebuilds = {k: how for k, how in decisions.items() if isinstance(how, Rebuild)}
                rebuilt = {k: self.searchers[k].rebuilt(how) for k, how in rebuilds.items()}
                check_same_decisions(self._exchange, self.searchers, decisions, rebuilt)
        except BaseException:
            for k, mark in before.items():
                self.searchers[k].relaxed.back_to(mark)
            raise
        for k, decision in decisions.items():
            if isinstance(decision, Rollback):
                self._roll_back(k, decision, rows)
                return True
        for k, decision in decisions.items():
            if isinstance(decision, Stop):
                searcher = self.searchers[k]
                if decision.epoch is not None:
                    searcher.go_back(decision.epoch)
                searcher.ended = rows[k]["ended"] = decision.reason
        for k, searcher in rebuilt.items():
            self.searchers[k], rows[k]["rebuilt"] = searcher, searcher.summary
        if rebuilt:
            self.group = self._grouped(self.position)
        return False

    def _roll_back(self, k: int, decision: Rollback, rows: Sequence[dict[str, Any]]) -> None:
        """Make everything what it was at the end of an epoch, but for the settings that learners went back with."""
        taken, changed = self.step, [searcher.changed for searcher in self.searchers]
        self._load_own_state(*self.marks.back_to(decision.epoch))
        self.repeated = taken - self.position
        for searcher, settings in zip(self.searchers, changed, strict=True):
            searcher.changed = settings  # what was changed after that epoch stays
        self.searchers[k].changed = {**changed[k], **decision.settings}
        words = ", ".join(f"{name} {value:g}" for name, value in decision.settings.items())
        for row in rows:
            row["rolled_back_to"] = decision.epoch
        back = f"to the end of epoch {decision.epoch + 1}, with {words or 'the same settings'}"
        rows[k]["rolled_back"] = f"{back}: {decision.reason}"

    def _decision(self, searcher: Searcher, step: int, row: Mapping[str, Any]) -> Decision:
        searcher.remember(step // self.course.steps_per_epoch)
        learner = searcher.learner
        x, y = self.validation.batch(step)

        def validation_loss(architecture: Mapping[str, Tensor]) -> Tensor:
            there = {name: tensor.to(self.device) for name, tensor in architecture.items()}
            with kernels.using("plain"), precision.in_full():  # which can be differentiated twice
                logits = searcher.relaxed(learner.w, there, x)
            return functional.nll_loss(log_mixture(functional.log_softmax(logits, dim=-1)), y)

        numbers = {name: value for name, value in row.items() if isinstance(value, float)}
        genotype = searcher.relaxed.derive(learner.architecture)
        progress = searcher.schedule.progress(step)
        host = on_host(learner.architecture)
        measure = partial(self.metrics.measured, searcher)
        end = EpochEnd(progress, host, genotype, numbers, validation_loss, searcher.settings, measure)
        decision = searcher.relaxed.method.end_epoch(end)
        if isinstance(decision, Rollback):
            self.marks.check_known(decision.epoch, searcher.relaxed.method.name)
            searcher.check_settings(decision.settings)
        if isinstance(decision, Stop) and decision.epoch is not None:
            searcher.check_known(decision.epoch)
        return decision

    @property
    def _current(self) -> int:
        """The step that is taken next; while an epoch is summed up, its last one."""
        return min(self.position - self._epoch_is_over, self.course.steps - 1)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next step depends on."""
        self._share()
        tensors, record = self._own_state()
        if self.marks.reach:
            marked, records = self.marks.state()
            tensors, record = tensors | marked, record | {"marks": records}
        return tensors, record

    def _own_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state without the earlier states that the search may go back to."""
        tensors = {
            f"{k}.{name}": tensor
            for k, searcher in enumerate(self.searchers)
            for name, tensor in searcher.state().items()
        }
        ended = [searcher.ended for searcher in self.searchers]
        record = {"step": self.step, "epochs_done": self.epochs_done, "ended": ended, "metrics": self.metrics.state()}
        labelers = None if self.labelers is None else self.labelers.digest
        # "labellers" keeps the spelling of the checkpoints that runs have.
        record |= {"taught": self.metrics.taught.state(), "data": self.data.digest, "labellers": labelers}
        if self.marks.reach:
            record |= {"repeated": self.repeated, "changed": [searcher.changed for searcher in self.searchers]}
        return tensors, record

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Restore the state that a checkpoint holds."""
        self._load_own_state(tensors, record)
        if self.marks.reach:
            self.marks.load_state(tensors, record["marks"])

    def _load_own_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        check_same_data(self.data.digest, record.get("data"))
        check_same_labelers(self.labelers, record.get("labellers"))
        self._ahead.forget()
        for k, searcher in enumerate(self.searchers):
            searcher.load_state(of_learner(tensors, k))
            searcher.ended = str(record["ended"][k])
            searcher.changed = dict(record["changed"][k]) if self.marks.reach else {}
        self.repeated = int(record["repeated"]) if self.marks.reach else 0
        self.group, self.epochs_done = self._grouped(int(record["step"]) - self.repeated), int(record["epochs_done"])
        self.metrics.load_state(record["metrics"])
        if "taught" in record:  # runs of earlier versions count from here
            self.metrics.taught.load_state(record["taught"])
