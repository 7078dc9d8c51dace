"""A step of a group of learners in a search space, in both forms, ready to be called."""

from collections.abc import Sequence

import torch
from torch import Tensor

from smallgroup.bench.group_step import GroupStep
from smallgroup.bench.student import Rates, Student
from smallgroup.bench.textbook import Textbook
from smallgroup.bench.timing import Call
from smallgroup.config import resolve
from smallgroup.group import Exchange, SmallGroup
from smallgroup.methods import METHODS, Relaxed
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.search.learners import Searcher, make_searcher
from smallgroup.phases.search.schedule import Schedule
from smallgroup.runtime import stream
from smallgroup.runtime.device import current
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space

CLASSES = 10
_SEED = 0


def build_space(step: GroupStep) -> Space:
    """Return the search space at this size."""
    return step.section.build(ImageSpec(CLASSES, 3, step.size))


def plain_step(step: GroupStep) -> Call:
    """Return a call that takes the step in textbook form."""
    settings = _settings(step.hypergradient)
    own = settings.weights
    rates = Rates(lr=own.lr, momentum=own.momentum, weight_decay=own.weight_decay, clip=own.clip)
    students = [
        Student(
            Relaxed(build_space(step), METHODS[step.method](), seed=_SEED, learner=k, channels_last=False),
            rates,
            teaches=step.learners > 1,
        )
        for k in range(step.learners)
    ]
    book = Textbook(students, hypergradient=step.hypergradient, lam=settings.lam, radius=settings.radius)
    train, unlabeled, validation = make_batches(step)
    return lambda: _losses(book.step(train, unlabeled, validation))


def fast_step(step: GroupStep) -> Call:
    """Return a step of the group of a search, on the fast path."""
    group, _ = group_for(step)
    train, unlabeled, validation = make_batches(step)

    def call() -> Sequence[Tensor | None]:
        report = group.step(train, unlabeled, validation)
        return _losses([float(learner.validation_loss or 0.0) for learner in report.learners])

    return call


def group_for(step: GroupStep, exchange: Exchange | None = None) -> tuple[SmallGroup, list[Searcher]]:
    """Return the group of a search at this size, and its learners; other processes may compute some of them."""
    settings = _settings(step.hypergradient)
    searchers = []
    for k in range(step.learners):
        method = METHODS[step.method]()
        schedule = Schedule(settings, 1, step.learners > 1, method.stages)
        searchers.append(make_searcher(build_space(step), method, schedule, seed=_SEED, number=k, device=current()))
    group = SmallGroup(
        [searcher.learner for searcher in searchers],
        lam=settings.lam,
        hypergradient=settings.hypergradient,
        label_path=settings.label_path,
        radius=settings.radius,
        optimizers=[searcher.optimizers for searcher in searchers],
        exchange=exchange,
    )
    return group, searchers


def make_batches(step: GroupStep) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]:
    """Return labeled, unlabeled and validation images, always the same."""
    shape = (step.batch, *build_space(step).images.shape)

    def images(purpose: str) -> Tensor:
        return torch.randn(shape, generator=stream("bench", purpose)).to(current())

    def labels(purpose: str) -> Tensor:
        return torch.randint(CLASSES, (step.batch,), generator=stream("bench", purpose, "labels")).to(current())

    return (
        (images("train"), labels("train")),
        images("unlabeled"),
        (images("validation"), labels("validation")),
    )


def _settings(hypergradient: str) -> SearchConfig:
    """Return the settings of the papers: how long a step takes does not depend on its rates."""
    return resolve({"recipe": "paper", "search": {"hypergradient": hypergradient, "label_path": True}}).search


def _losses(values: Sequence[float]) -> Sequence[Tensor]:
    return [torch.tensor(values, dtype=torch.float64)]
