"""The plain reference takes the step of `SmallGroup`: two derivations that share the equations alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from smallgroup.bench.paths import PLAIN, on
from smallgroup.bench.student import Rates, Student
from smallgroup.bench.textbook import Textbook
from smallgroup.group import Learner, Optimizers, SmallGroup
from smallgroup.group.hypergradients import Hypergradient
from smallgroup.group.report import LearnerReport
from smallgroup.methods import METHODS, Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space

BATCH, CLASSES, LAM = 3, 4, 0.7
RATES = Rates(lr=0.1, momentum=0.9, weight_decay=3e-4, clip=0.5)
SPACES: dict[str, Space] = {
    "darts": DartsSpace(channels=4, cells=3, stem="small", images=ImageSpec(CLASSES, 1, 6)),
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=ImageSpec(CLASSES, 1, 6)),
}
Batches = tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Both on the plain path: what is compared here is the step, not the kernels."""
    with on(PLAIN):
        yield


def make_batches() -> Batches:
    generator = stream("test", "bench")
    images = [torch.randn(BATCH, 1, 6, 6, generator=generator, dtype=torch.float64) for _ in range(3)]
    labels = [torch.randint(CLASSES, (BATCH,), generator=generator) for _ in range(2)]
    return (images[0], labels[0]), images[1], (images[2], labels[1])


def relaxed(space: str, method: str, k: int) -> Relaxed:
    return Relaxed(SPACES[space], METHODS[method](), seed=3, learner=k, channels_last=False)


def make_group(space: str, method: str, count: int, mode: Hypergradient, *, adam: bool) -> SmallGroup:
    learners, optimizers = [], []
    for k in range(count):
        apply = relaxed(space, method, k)
        w, a = apply.initial_weights("w", dtype=torch.float64), apply.initial_architecture(dtype=torch.float64)
        v = apply.initial_weights("v", dtype=torch.float64) if count > 1 else None
        learners.append(Learner(apply, a, v, w))
        own = apply.method.optimizer
        optimizers.append(
            Optimizers(
                v=None if v is None else sgd(v),
                w=sgd(w),
                architecture=Adam(list(a.values()), lr=own.lr, betas=own.betas, weight_decay=own.weight_decay)
                if adam
                else SGD(list(a.values()), lr=1.0),
                v_clip=RATES.clip,
                w_clip=RATES.clip,
                architecture_clip=own.clip,
            )
        )
    return SmallGroup(learners, lam=LAM, hypergradient=mode, optimizers=optimizers)


def sgd(tensors: dict[str, Tensor]) -> SGD:
    return SGD(list(tensors.values()), lr=RATES.lr, momentum=RATES.momentum, weight_decay=RATES.weight_decay)


def make_book(space: str, method: str, count: int, mode: str, *, adam: bool) -> Textbook:
    students = [Student(relaxed(space, method, k), RATES, teaches=count > 1, dtype=torch.float64) for k in range(count)]
    for student in students:
        if not adam:  # whose step hardly depends on the length of a gradient
            student.step_a = SGD(list(student.a.values()), lr=1.0)
    return Textbook(students, hypergradient=mode, lam=LAM)


def take_the_same_steps(
    space: str, method: str, count: int, mode: Hypergradient, *, steps: int = 2, adam: bool = False
) -> list[LearnerReport]:
    """Both take some steps, and agree on everything after each; the last report."""
    group, book = make_group(space, method, count, mode, adam=adam), make_book(space, method, count, mode, adam=adam)
    train, unlabeled, validation = make_batches()
    for _ in range(steps):
        report = group.step(train, unlabeled if count > 1 else None, validation)
        losses = book.step(train, unlabeled, validation)
        for learner, student, told, loss in zip(group.learners, book.students, report.learners, losses, strict=True):
            assert not told.skipped
            assert told.validation_loss == pytest.approx(loss, rel=1e-10)
            same(student.w, learner.w)
            same(student.v, learner.v or {})
            same(student.a, learner.architecture)
    return list(report.learners)


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor.detach(), expected[name], rtol=1e-9, atol=1e-10, msg=lambda m: f"{name}: {m}")  # noqa: B023


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
@pytest.mark.parametrize("count", [1, 2])
def test_it_takes_the_step_of_the_group(count: int, mode: Hypergradient) -> None:
    for told in take_the_same_steps("nas-bench-201", "darts", count, mode):
        wanted = {"direct"} | ({"own"} if mode != "first-order" else set())
        wanted |= {"cross", "label"} if mode != "first-order" and count > 1 else set()
        # Large enough to be missed.
        assert {term for term, norm in told.norms.items() if norm > 1e-7} == wanted


def test_it_does_so_for_three_learners_and_with_adam() -> None:
    take_the_same_steps("nas-bench-201", "darts", 3, "finite-difference", adam=True)


def test_it_does_so_in_the_darts_space() -> None:
    take_the_same_steps("darts", "darts", 2, "finite-difference", steps=1)


@pytest.mark.parametrize("method", ["fair-darts", "gdas", "pc-darts", "darts-minus"])
def test_it_knows_the_penalties_draws_and_edges_of_other_methods(method: str) -> None:
    take_the_same_steps("nas-bench-201", method, 2, "finite-difference", adam=True)


def test_it_refuses_methods_of_several_samples() -> None:
    apply = relaxed("nas-bench-201", "parsec", 0)
    with pytest.raises(ValueError, match="one sample per pass, but parsec has samples=16"):
        Student(apply, RATES, teaches=False)
