"""A step of a group of learners in a search space, in both forms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from smallgroup.bench.student import Rates, Student
from smallgroup.bench.textbook import Textbook
from smallgroup.bench.timing import Call
from smallgroup.config import resolve
from smallgroup.group import SmallGroup
from smallgroup.group.hypergradients import Hypergradient
from smallgroup.methods import METHODS, Relaxed
from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.search.learners import make_searcher
from smallgroup.phases.search.schedule import Schedule
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import MAIN_SPACES, DartsSpace, NasBench201Space, Space

CLASSES = 10
_SEED = 0
_MOST = 10_000
"""Far beyond any use."""


@dataclass(frozen=True, kw_only=True)
class GroupStep:
    """V, W and A of every learner move once, as in a search with default settings, on random images."""

    space: str = "darts"
    method: str = "darts"
    learners: int = 2
    hypergradient: str = "first-order"
    channels: int = 16
    cells: int = 8
    """In all, in the DARTS space."""
    cells_per_stage: int = 5
    """In NAS-Bench-201."""
    batch: int = 50
    """Of each of the three kinds of images."""
    size: int = 32
    """Height and width of an image."""

    def __post_init__(self) -> None:
        check_choice("space", self.space, MAIN_SPACES)
        check_choice("method", self.method, tuple(METHODS))
        check_choice("hypergradient", self.hypergradient, get_args(Hypergradient))
        check_counts(learners=self.learners, batch=self.batch)
        if max(self.learners, self.batch) > _MOST:
            raise ValueError(f"learners and batch must be at most {_MOST}, but got {self.learners} and {self.batch}")
        self.build_space()  # which checks the rest

    @property
    def name(self) -> str:
        """All sizes in a line."""
        depth = f"{self.cells} cells" if self.space == DartsSpace.name else f"N={self.cells_per_stage}"
        network = f"C={self.channels}, {depth}, batch {self.batch}, {self.size}x{self.size}"
        return f"{self.method} in {self.space}, {network}, K={self.learners}, {self.hypergradient}"

    @property
    def sizes(self) -> dict[str, Any]:
        """Those that play a part."""
        unused = "cells_per_stage" if self.space == DartsSpace.name else "cells"
        return {name: value for name, value in vars(self).items() if name != unused}

    def build_space(self) -> Space:
        """The search space at this size."""
        if self.space == DartsSpace.name:
            return DartsSpace(channels=self.channels, cells=self.cells, images=ImageSpec(CLASSES, 3, self.size))
        return NasBench201Space(
            channels=self.channels, cells_per_stage=self.cells_per_stage, images=ImageSpec(CLASSES, 3, self.size)
        )

    def plain(self) -> Call:
        """The textbook step."""
        settings = _settings(self.hypergradient)
        own = settings.weights
        rates = Rates(lr=own.lr, momentum=own.momentum, weight_decay=own.weight_decay, clip=own.clip)
        students = [
            Student(
                Relaxed(self.build_space(), METHODS[self.method](), seed=_SEED, learner=k, channels_last=False),
                rates,
                teaches=self.learners > 1,
            )
            for k in range(self.learners)
        ]
        book = Textbook(students, hypergradient=self.hypergradient, lam=settings.lam, radius=settings.radius)
        train, unlabeled, validation = self.batches()
        return lambda: _losses(book.step(train, unlabeled, validation))

    def fast(self) -> Call:
        """The learners and the group of a search."""
        settings = _settings(self.hypergradient)
        searchers = []
        for k in range(self.learners):
            method = METHODS[self.method]()
            schedule = Schedule(settings, 1, self.learners > 1, method.stages)
            searchers.append(make_searcher(self.build_space(), method, schedule, seed=_SEED, number=k))
        group = SmallGroup(
            [searcher.learner for searcher in searchers],
            lam=settings.lam,
            hypergradient=settings.hypergradient,
            label_path=settings.label_path,
            radius=settings.radius,
            optimizers=[searcher.optimizers for searcher in searchers],
        )
        train, unlabeled, validation = self.batches()

        def call() -> Sequence[Tensor | None]:
            report = group.step(train, unlabeled, validation)
            return _losses([float(learner.validation_loss or 0.0) for learner in report.learners])

        return call

    def batches(self) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]:
        """Labelled, unlabelled and validation images, always the same."""
        shape = (self.batch, *self.build_space().images.shape)

        def images(purpose: str) -> Tensor:
            return torch.randn(shape, generator=stream("bench", purpose))

        def labels(purpose: str) -> Tensor:
            return torch.randint(CLASSES, (self.batch,), generator=stream("bench", purpose, "labels"))

        return (
            (images("train"), labels("train")),
            images("unlabeled"),
            (images("validation"), labels("validation")),
        )


def _settings(hypergradient: str) -> SearchConfig:
    """The rates of the papers: how long a step takes does not depend on them."""
    return resolve({"recipe": "paper", "search": {"hypergradient": hypergradient, "label_path": True}}).search


def _losses(values: Sequence[float]) -> Sequence[Tensor]:
    return [torch.tensor(values, dtype=torch.float64)]
