"""Every task with learners that differ, batches, and its formulas written out by hand for the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import (
    Classification,
    DenseClassification,
    GaussianRegression,
    Learner,
    MultiLabel,
    Regression,
    Task,
)
from tests.group import networks
from tests.group.networks import SHAPE, learner_of, make_learners
from tests.group.oracle import CLASSIFICATION, Written

CLASSES, LENGTH, WORDS = 3, 5, 7


class Robust(Task):
    """A task as a user would write it: a loss that forgives outliers, in which no two tables can be merged."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.pupil_loss(outputs, labels)

    def hand_over(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.sum(dim=1)

    def pupil_loss(self, outputs: Tensor, handed: Tensor) -> Tensor:
        return torch.log1p((outputs.sum(dim=1) - handed).square()).mean()

    def label_shape(self, outputs: Tensor) -> Any:
        return outputs.shape[:1]

    def nothing(self, outputs: Tensor, inputs: Any) -> Tensor:  # noqa: ARG002
        return outputs.new_zeros(len(outputs))


@dataclass(frozen=True)
class Case:
    """How to make a group for a task, and the same task in formulas."""

    task: Callable[[], Task]
    written: Written
    learners: Callable[[int, torch.dtype], list[Learner]]
    batches: Callable[[torch.dtype, int], Any]


def reshaped(learner: Learner, *shape: int) -> Learner:
    """The same learner with outputs of another shape."""
    inner = learner.apply

    def apply(weights: Any, architecture: Any, inputs: Any, *, phase: Any = None) -> Tensor:
        outputs: Tensor = inner(weights, architecture, inputs, phase=phase)
        return outputs.reshape(len(outputs), *shape)

    return Learner(apply, learner.architecture, learner.v, learner.w)


class Map(nn.Module):
    """A class per pixel; the architecture mixes a small and a wide view."""

    def __init__(self, channels: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.near, self.far = (nn.Conv2d(SHAPE[0], channels, 3, padding=d, dilation=d) for d in (1, 2))
        self.head = nn.Conv2d(channels, CLASSES, 1)
        self.mix = nn.Parameter(0.5 * torch.randn(2))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        m = self.mix.softmax(dim=0)
        maps: Tensor = self.head(self.activation(m[0] * self.near(x) + m[1] * self.far(x)))
        return maps


class Tagger(nn.Module):
    """A class per token, of a dictionary with a mask: a word sees itself and the mean of the others, by gates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.head = nn.Linear(width, CLASSES)
        self.gates = nn.Parameter(0.5 * torch.randn(2, width))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        words, real = self.words(tokens), mask.unsqueeze(2).to(self.gates.dtype)
        mean = (words * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
        own, others = self.gates.sigmoid()
        scores: Tensor = self.head(torch.tanh(own * words + others * mean))
        return scores


def maps(count: int, dtype: torch.dtype) -> list[Learner]:
    kinds = [(4, F.softplus), (3, torch.tanh), (5, torch.sigmoid)]
    return [learner_of(lambda kind=kind: Map(*kind), 10 * k, dtype) for k, kind in enumerate(kinds[:count])]  # type: ignore[misc]


def taggers(count: int, dtype: torch.dtype) -> list[Learner]:
    return [learner_of(lambda width=width: Tagger(width), width, dtype) for width in (4, 6, 3)[:count]]  # type: ignore[misc]


def images(dtype: torch.dtype, seed: int, labels: Callable[[int, torch.Generator], Tensor]) -> Any:
    """As those of the classifiers, with labels of another kind."""
    generator = torch.Generator().manual_seed(seed + 1)
    (x, _), u, (x_v, _) = networks.make_batches(dtype, seed=seed)

    def of(n: int) -> Tensor:
        made = labels(n, generator)
        return made.to(dtype) if made.is_floating_point() else made

    return (x, of(len(x))), u, (x_v, of(len(x_v)))


def numbers(*shape: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda n, generator: torch.randn((n, *shape), generator=generator, dtype=torch.float64)


def pixel_labels(n: int, generator: torch.Generator) -> Tensor:
    labels = torch.randint(CLASSES, (n, *SHAPE[1:]), generator=generator)
    labels[:, 0] = -100
    return labels


def sentences(dtype: torch.dtype, seed: int) -> Any:  # noqa: ARG001
    generator = torch.Generator().manual_seed(seed)

    def inputs(n: int) -> dict[str, Tensor]:
        lengths = torch.randint(1, LENGTH + 1, (n, 1), generator=generator)
        tokens = torch.randint(WORDS, (n, LENGTH), generator=generator)
        return {"tokens": tokens, "mask": torch.arange(LENGTH) < lengths}

    def labeled(n: int) -> tuple[dict[str, Tensor], Tensor]:
        x = inputs(n)
        y = torch.randint(CLASSES, (n, LENGTH), generator=generator)
        return x, y.masked_fill(~x["mask"], -1)

    return labeled(6), inputs(7), labeled(8)


def _sharp_and_confident(outputs: Tensor, _: Any) -> Tensor:
    q = outputs.softmax(dim=1)
    return q**2 / (q**2).sum(dim=1, keepdim=True) * (q.detach().amax(dim=1, keepdim=True) >= 0.32)


def _binary(outputs: Tensor, target: Tensor) -> Tensor:
    q = outputs.sigmoid()
    return -(target * q.log() + (1 - target) * (1 - q).log()).mean()


def _gaussian(outputs: Tensor, labels: Tensor) -> Tensor:
    mean, variance = outputs[:, 0], outputs[:, 1].exp()
    return ((labels - mean) ** 2 / (2 * variance) + variance.log() / 2).mean()


def _gaussian_table(outputs: Tensor, _: Any) -> Tensor:
    return torch.stack([outputs[:, 0], outputs[:, 1].exp()], dim=1)


def _gaussian_pupil(outputs: Tensor, table: Tensor) -> Tensor:
    """Divergence of two Gaussians, plus the entropy of the first (without its constant)."""
    m, v, m_t, v_t = outputs[:, 0], outputs[:, 1].exp(), table[:, 0], table[:, 1]
    divergence = ((v / v_t).log() + (v_t + (m_t - m) ** 2) / v - 1) / 2
    return (divergence + (v_t.log() + 1) / 2).mean()


def _gaussian_nothing(outputs: Tensor, _: Any) -> Tensor:
    return torch.stack([torch.full_like(outputs[:, 0], 0.5), torch.full_like(outputs[:, 1], 2.0)], dim=1)


def _words(inputs: Any) -> Tensor:
    mask: Tensor = inputs["mask"]
    return mask


def _tokens_pupil(outputs: Tensor, table: Tensor) -> Tensor:
    """Word by word, over those that were handed soft labels."""
    q = outputs.softmax(dim=2)
    terms = [
        -(table[i, j] * q[i, j].log()).sum()
        for i, j in torch.cartesian_prod(*map(torch.arange, table.shape[:2]))
        if bool(table[i, j].detach().any())
    ]
    return torch.stack(terms).mean()


def _tokens_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs[labels >= 0], labels[labels >= 0])


CASES: dict[str, Case] = {
    "classification": Case(
        Classification, CLASSIFICATION, make_learners, lambda dtype, seed: networks.make_batches(dtype, seed=seed)
    ),
    "sharp and confident labels": Case(
        lambda: Classification(temperature=0.5, confidence=0.32),
        CLASSIFICATION._replace(hand=_sharp_and_confident),
        make_learners,
        lambda dtype, seed: networks.make_batches(dtype, seed=seed),
    ),
    "multi-label": Case(
        MultiLabel,
        Written(
            lambda o, y: _binary(o, y.to(o)),
            lambda o, _: o.sigmoid(),
            _binary,
            lambda o, _: torch.full_like(o, 0.5),
        ),
        make_learners,
        lambda dtype, seed: images(dtype, seed, lambda n, g: torch.rand((n, 4), generator=g) < 0.5),
    ),
    "regression": Case(
        lambda: Regression(mean=0.5),
        Written(F.mse_loss, lambda o, _: o, F.mse_loss, lambda o, _: torch.full_like(o, 0.5)),
        make_learners,
        lambda dtype, seed: images(dtype, seed, numbers(4)),
    ),
    "one number": Case(
        Regression,
        Written(F.mse_loss, lambda o, _: o, F.mse_loss, lambda o, _: torch.zeros_like(o)),
        lambda count, dtype: [_first(learner) for learner in make_learners(count, dtype)],
        lambda dtype, seed: images(dtype, seed, numbers()),
    ),
    "gaussian": Case(
        lambda: GaussianRegression(mean=0.5, variance=2.0),
        Written(_gaussian, _gaussian_table, _gaussian_pupil, _gaussian_nothing),
        lambda count, dtype: [reshaped(learner, 2, 2) for learner in make_learners(count, dtype)],
        lambda dtype, seed: images(dtype, seed, numbers(2)),
    ),
    "pixels": Case(
        DenseClassification,
        Written(
            F.cross_entropy,
            lambda o, _: o.softmax(dim=1),
            lambda o, t: -(t * o.log_softmax(dim=1)).sum(dim=1).mean(),
            lambda o, _: torch.full_like(o, 1 / CLASSES),
        ),
        maps,
        lambda dtype, seed: images(dtype, seed, pixel_labels),
    ),
    "tokens": Case(
        lambda: DenseClassification(class_dim=-1, ignore=-1, counted=_words),
        Written(
            _tokens_loss,
            lambda o, u: o.softmax(dim=2) * u["mask"].unsqueeze(2),
            _tokens_pupil,
            lambda o, u: torch.full_like(o, 1 / CLASSES) * u["mask"].unsqueeze(2),
        ),
        taggers,
        sentences,
    ),
    "a user's own": Case(
        Robust,
        Written(
            lambda o, y: torch.log(1 + (o.sum(dim=1) - y) ** 2).mean(),
            lambda o, _: o.sum(dim=1),
            lambda o, t: torch.log(1 + (o.sum(dim=1) - t) ** 2).mean(),
            lambda o, _: o.sum(dim=1).detach() * 0,
        ),
        make_learners,
        lambda dtype, seed: images(dtype, seed, numbers()),
    ),
}


def _first(learner: Learner) -> Learner:
    """The first output alone, as a number per input."""
    inner = learner.apply

    def apply(weights: Any, architecture: Any, inputs: Any, *, phase: Any = None) -> Tensor:
        outputs: Tensor = inner(weights, architecture, inputs, phase=phase)
        return outputs[:, 0]

    return Learner(apply, learner.architecture, learner.v, learner.w)


def names(*, without: Sequence[str] = ()) -> list[str]:
    return [name for name in CASES if name not in without]
