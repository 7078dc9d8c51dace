"""The group: learners that teach one another, and the gradient of their architectures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal, get_args, overload

import torch
from torch import Tensor

from smallgroup.group.batches import Batch, Batches
from smallgroup.group.exchange import Exchange, LocalExchange, check_exchange
from smallgroup.group.hypergradients import Hypergradient, MixedProduct, exact, finite_difference
from smallgroup.group.inputs import Inputs
from smallgroup.group.iteration import first_stage_alone, iterate, third_stage_alone
from smallgroup.group.learner import Labeler, Learner, begin_step
from smallgroup.group.optimizers import (
    Move,
    Optimizers,
    check_differentiable,
    clip_factor,
    committed_move,
    complete,
    lay_down,
    plain_move,
    take_step,
)
from smallgroup.group.problem import ConstantWeights, Setting
from smallgroup.group.report import LearnerReport, StepReport, merged
from smallgroup.group.roster import check_learners, check_seeds, identities_of, places_of
from smallgroup.group.snapshot import Snapshot
from smallgroup.group.task import Task
from smallgroup.group.tasks.classification import Classification
from smallgroup.group.teaching import LabelsFrom, Targets, Teaching
from smallgroup.group.tensors import Tensors, Vector, present, unread_norm
from smallgroup.group.workings import Mover, Workings
from smallgroup.runtime.checks import check_choice, check_number

Order = Literal["v-w-a", "a-v-w"]
"""The paper's order of stages, or architectures first."""


class SmallGroup:
    """K learners on one task, Eq. (3): min_A sum_k L(W*_k, A_k, D_val), with W* and V* optimal below it.

    Solved as in the paper: each level by one step per iteration, and the architecture gradient through both.

    Args:
        learners: at least one. They may differ in everything but the classes, labels or targets.
        lam: lambda, the weight of the peers' labels in stage 2. 0 makes the learners independent.
        hypergradient: "first-order" (the direct term alone), "finite-difference" (the paper's), or "exact".
        label_path: differentiate the labels also in the architecture that makes them (the true derivative);
            False follows the paper, which differentiates them through V' alone.
        radius: the length of the finite-difference probes, over all weights of a learner together.
        v_lr: the rate of the plain gradient step of V, Eq. (4).
        w_lr: the rate of the plain gradient step of W, Eq. (5).
        architecture_lr: the rate of the plain gradient step of A, Eq. (6).
        optimizers: torch optimizers in their place, one `Optimizers` per learner; what it leaves out stays plain.
        labels_from: who makes the labels, an ablation; see `teaching.Teaching`, as for the next two.
        targets: whose labels W learns from, a control.
        human_labels: whether W learns from human labels too, an ablation.
        task: what is learned and handed over; `Classification()` by default, which is the paper's.
        exchange: where learners meet. By default all are computed here; with `RankExchange` each process of a
            `torch.distributed` group computes some of them. Then only those move here, and reports of the others are
            empty but for what they hand over.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        *,
        lam: float = 1.0,
        hypergradient: Hypergradient = "finite-difference",
        label_path: bool = True,
        radius: float = 0.01,
        v_lr: float = 0.025,
        w_lr: float = 0.025,
        architecture_lr: float = 3e-4,
        optimizers: Sequence[Optimizers] | None = None,
        labels_from: LabelsFrom | Sequence[Labeler] = "v",
        targets: Targets = "peers",
        human_labels: bool = True,
        task: Task | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        check_choice("hypergradient", hypergradient, get_args(Hypergradient))
        check_number("radius", radius, positive=True)
        if not isinstance(learners, Sequence):
            raise TypeError(f"learners must be a list of Learner, but got {type(learners).__name__}")
        if task is not None and not isinstance(task, Task):
            raise TypeError(f"task must be a Task, such as smallgroup.group.Regression(), but got {_name(task)}")
        self.learners = list(learners)
        teaching = Teaching(len(self.learners), lam, labels_from, targets, human_labels)
        check_learners(self.learners, needs_v=teaching.trains_v)
        self.optimizers = complete(optimizers, self.learners, v_lr, w_lr, architecture_lr)
        if hypergradient != "first-order":
            for each in self.optimizers:
                check_differentiable(each.v if teaching.trains_v else None)
                check_differentiable(each.w)
        product: dict[str, MixedProduct | None] = {
            "first-order": None,
            "finite-difference": partial(finite_difference, radius=radius),
            "exact": exact,
        }
        self._exchange = LocalExchange(len(self.learners)) if exchange is None else exchange
        check_exchange(self._exchange, len(self.learners))
        self.setting = Setting(
            self.learners, teaching, product[hypergradient], label_path, task or Classification(), self._exchange
        )
        self._identities = [identities_of(learner) for learner in self.learners]
        self._places: list[list[int]] = []
        self._standing: list[ConstantWeights] = []
        self._snapshot: Snapshot | None = None
        self.steps = 0
        """How many steps were taken; the random numbers of an iteration are a function of it."""

    @property
    def lam(self) -> float:
        """Return lambda, the weight of the peers' labels. It may be set between steps, but not to or from 0.

        Lambda 0 is another kind of group, in which V is not trained and may be absent.
        """
        return self.setting.teaching.lam

    @lam.setter
    def lam(self, value: float) -> None:
        teaching = replace(self.setting.teaching, lam=value)
        if teaching.active != self.setting.teaching.active:
            raise ValueError(f"lam may not be set to or from 0, but it is {self.lam:g} and would become {value:g}")
        self.setting = replace(self.setting, teaching=teaching)

    @overload
    def architecture_gradients(
        self, train: Batch, unlabeled: Inputs | None, validation: Batch, *, parts: Literal[False] = False
    ) -> list[dict[str, Tensor]]: ...

    @overload
    def architecture_gradients(
        self, train: Batch, unlabeled: Inputs | None, validation: Batch, *, parts: Literal[True]
    ) -> list[dict[str, dict[str, Tensor]]]: ...

    def architecture_gradients(
        self, train: Batch, unlabeled: Inputs | None, validation: Batch, *, parts: bool = False
    ) -> list[dict[str, Tensor]] | list[dict[str, dict[str, Tensor]]]:
        """Return the gradient of sum_j L(W'_j, A_j, D_val) in each A_k, Eq. (6), for plain steps; change nothing.

        The steps of Eqs. (4) and (5) are taken at the learning rates of the optimizers, without their momentum,
        decay or clipping. With parts=True the four terms "direct", "own", "cross" and "label" are returned separately.
        """
        if validation is None:
            raise TypeError("the architecture gradient needs a validation batch, but validation is None")
        with self._together():
            report = self._iterate(
                (train, unlabeled, validation),
                lambda k, g: plain_move(self.learners[k].v or {}, g, _required(self.optimizers[k].v)),
                lambda k, g: plain_move(self.learners[k].w, g, _required(self.optimizers[k].w)),
            )
        return [one.terms for one in report.learners] if parts else [one.gradient for one in report.learners]

    def step(
        self,
        train: Batch,
        unlabeled: Inputs | None,
        validation: Batch | None,
        *,
        order: Order = "v-w-a",
        clip_look_ahead: bool = True,
        moving: Sequence[bool] | None = None,
    ) -> StepReport:
        """Take one iteration of Algorithm 1: move V, W and A of every learner in place.

        Without a validation batch the architectures stay (stages 1 and 2 only); with `moving`, those of the learners
        for which it is False. If anything fails, nothing has changed: a loss that is not finite raises
        `NonFiniteError`.

        Order "a-v-w" is that of DARTS and of the published code: A first, at the current weights, then V and W at the
        new A. In second order A looks ahead to the step of W on `train`, see `step_architectures`.
        """
        check_choice("order", order, get_args(Order))
        if order == "v-w-a" and not clip_look_ahead and self.setting.product is not None:
            raise ValueError(
                'clip_look_ahead can be False only with order="a-v-w", but order is "v-w-a", in which the look-ahead '
                "is the step that is taken"
            )
        with self._all_or_nothing() as saved:
            if order == "v-w-a" or validation is None:
                report = self._commit(saved, (train, unlabeled, validation), iterate, moving)
            else:
                look_ahead = None if self.setting.product is None else train
                first = self._step_architectures(saved, validation, look_ahead, clip_look_ahead, moving)
                report = merged(first, self._commit(saved, (train, unlabeled, None), iterate))
        self.steps += 1
        return report

    def step_labelers(self, train: Batch) -> StepReport:
        """Take stage 1 alone: move V of every learner, so that labelers learn before they teach."""
        if not self.setting.teaching.trains_v:
            raise ValueError("labelers can be stepped only where learners have first weights v that teach")
        with self._all_or_nothing() as saved:
            report = self._commit(saved, (train, None, None), first_stage_alone)
        self.steps += 1
        return report

    def step_architectures(
        self,
        validation: Batch,
        *,
        look_ahead: Batch | None = None,
        clip_look_ahead: bool = True,
        moving: Sequence[bool] | None = None,
    ) -> StepReport:
        """Move A alone, before V and W: along grad_A L(W_k, A_k, D_val) at the current W.

        With a training batch as `look_ahead`, along grad_A L(W'_k, A_k, D_val) instead, Eq. (7), through the step W'_k
        that the optimizer of W would take on that batch. W and its optimizer stay where they were. This is the order
        of DARTS (2nd), whose look-ahead is not clipped (`clip_look_ahead=False`); it is for learners that nobody
        teaches. It does not count as a step: the next one draws other phases of the same random numbers.
        """
        if validation is None:
            raise TypeError("the architecture gradient needs a validation batch, but validation is None")
        with self._all_or_nothing() as saved:
            return self._step_architectures(saved, validation, look_ahead, clip_look_ahead, moving)

    def _step_architectures(
        self,
        saved: Snapshot,
        validation: Batch,
        look_ahead: Batch | None,
        clip: bool,
        moving: Sequence[bool] | None,
    ) -> StepReport:
        if look_ahead is None:
            return self._commit(saved, (validation, None, validation), third_stage_alone, moving)
        if self.setting.teaching.active:
            raise ValueError(
                "architectures can look ahead before V and W only if no learner teaches, because a group "
                'differentiates the steps of V and W that it takes; use step with order="v-w-a"'
            )
        return self._commit(saved, (look_ahead, None, validation), iterate, moving, keep_weights=False, clip=clip)

    def _moving(self, given: Sequence[bool] | None) -> Sequence[bool]:
        """Return the numbers of the learners whose architectures move in this step."""
        moving = [True] * len(self.learners) if given is None else given
        if len(moving) != len(self.learners):
            raise ValueError(
                f"moving must say of each of the {len(self.learners)} learners whether its architecture moves, "
                f"but it has {len(moving)} entries"
            )
        return moving

    @contextmanager
    def _all_or_nothing(self) -> Iterator[Snapshot]:
        """Restore everything if anything fails inside, here or in another process; the one snapshot of a step."""
        saved: Snapshot | None = None
        try:
            with self._together():
                saved = self._saved()
                yield saved
        except BaseException:
            if saved is not None:
                saved.restore()
            raise

    @contextmanager
    def _together(self) -> Iterator[None]:
        """End what is done inside in all processes of the group, or in none: one that fails tells the others."""
        try:
            self._look_at_tensors()
            yield
            self._exchange.agree(None)
        except BaseException as error:
            self._exchange.agree(error)
            raise

    def _commit(
        self,
        saved: Snapshot,
        given: tuple[Batch, Inputs | None, Batch | None],
        run: Callable[[Workings], StepReport],
        moving: Sequence[bool] | None = None,
        *,
        keep_weights: bool = True,
        clip: bool = True,
    ) -> StepReport:
        """Take the steps that `run` asks for, in place; those of V and W are undone on request."""
        who_moves = self._moving(moving)
        with_xi = self.setting.product is not None and given[2] is not None

        def move_v(k: int, gradient: Vector[Tensor | None]) -> Move:
            own, v, after = self.optimizers[k], self.learners[k].v or {}, self._standing[k].v
            return committed_move(
                v, gradient, _required(own.v), own.v_clip, before=saved.v[k], after=after, with_xi=with_xi
            )

        def move_w(k: int, gradient: Vector[Tensor | None]) -> Move:
            own, w, after = self.optimizers[k], self.learners[k].w, self._standing[k].w
            limit = own.w_clip if clip else None
            return committed_move(w, gradient, _required(own.w), limit, before=saved.w[k], after=after, with_xi=with_xi)

        report = self._iterate(given, move_v, move_w, run)
        if not keep_weights:
            saved.restore()
        for k in self._exchange.mine:
            if who_moves[k]:
                self._move_architecture(k, report.learners[k], saved.architecture[k])
        return report

    def _move_architecture(self, k: int, report: LearnerReport, before: Tensors) -> None:
        """Take A_k <- A_k - eta_A * gradient, Eq. (6), or the step that its optimizer and the learner make of it."""
        own, architecture = self.optimizers[k], self.learners[k].architecture
        if not report.gradient:
            return
        gradient: Vector[Tensor | None] = Vector(report.gradient)
        if self.setting.defers_checks and own.architecture_clip is not None:
            gradient.unread = unread_norm(present(gradient))
        lay_down(gradient, clip_factor(gradient, own.architecture_clip), architecture)
        take_step(_required(own.architecture), architecture)
        self.learners[k].after_step(before)

    def _look_at_tensors(self) -> None:
        """Refuse tensors that cannot be worked with; what is kept of them is made anew if they lie elsewhere now."""
        if torch.is_inference_mode_enabled():
            raise RuntimeError("a group cannot differentiate in torch.inference_mode(); use torch.no_grad() or neither")
        for k, learner in enumerate(self.learners):
            if identities_of(learner) != self._identities[k]:
                raise ValueError(
                    f"the tensors of learner {k} must stay the same objects, but one was replaced; copy into it instead"
                )
        places = [places_of(learner) for learner in self.learners]
        if places != self._places:
            self._snapshot, self._standing = None, [ConstantWeights.of(learner) for learner in self.learners]
            self._places = places

    def _saved(self) -> Snapshot:
        """Copy the current state of everything; the copy reuses the memory of the step before."""
        with_v = self.setting.teaching.trains_v
        if self._snapshot is not None and self._snapshot.is_of(self.optimizers, with_v=with_v):
            self._snapshot.take_again()
        else:
            self._snapshot = Snapshot(self.learners, self.optimizers, self._exchange.mine, with_v=with_v)
        return self._snapshot

    def _iterate(
        self,
        given: tuple[Batch, Inputs | None, Batch | None],
        move_v: Mover,
        move_w: Mover,
        run: Callable[[Workings], StepReport] = iterate,
    ) -> StepReport:
        batches = Batches.checked(
            self.setting.task, *given, needs_unlabeled=run is iterate and self.setting.teaching.active
        )
        labels_from = self.setting.teaching.labels_from
        for k in self._exchange.mine:
            self.learners[k].begin_step(self.steps)
            if not isinstance(labels_from, str):
                begin_step(labels_from[k], self.steps)
        generator = torch.get_rng_state()
        work = Workings(self.setting, self._standing, batches, move_v, move_w, step=self.steps)
        report = run(work)
        if self.setting.product is not None and not torch.equal(generator, torch.get_rng_state()):
            raise ValueError(
                "second-order modes need an apply that replays its random numbers, but one drew from torch's "
                "global generator; wrap the module in smallgroup.group.ModuleApply or draw in begin_step"
            )
        check_seeds(self.learners)
        return report


def _name(task: object) -> str:
    return f"the class {task.__name__}" if isinstance(task, type) else type(task).__name__


def _required(optimizer: torch.optim.Optimizer | None) -> torch.optim.Optimizer:
    assert optimizer is not None  # complete() made one for every set of tensors that is stepped
    return optimizer
