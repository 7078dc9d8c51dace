"""Random learners: what is random is drawn once per phase and step, and every probe replays it."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smallgroup.group import Learner, ModuleApply
from tests.group.checks import TOLERANCE, check_changes_nothing, expected_terms, group_of, term_errors
from tests.group.networks import BUILDERS, SHAPE, learner_of, make_batches, make_learners, same_bits, state_of


class Gumbel:
    """A learner that samples its mix: softmax(alpha + Gumbel noise), the noise a function of (step, phase).

    With `fresh` the second probe of a phase, its third pass, draws anew: the bug that the controls put in.
    """

    PHASES = ("v", "label", "w", "w_unlabeled", "val")

    def __init__(self, inner: Any, seed: int, *, fresh: bool = False) -> None:
        self.inner, self.seed, self.fresh = inner, seed, fresh
        self.calls: Counter[str] = Counter()
        self.noise: dict[str, Tensor] = {}
        self.steps: list[int] = []

    def begin_step(self, step: int) -> None:
        self.steps.append(step)
        self.calls.clear()
        for i, phase in enumerate(self.PHASES):
            self.noise[phase] = self._draw(100 * step + i)

    def _draw(self, key: int) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * self.seed + key)
        return -torch.rand(2, 4, generator=generator, dtype=torch.float64).log().neg().log()

    def __call__(self, weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:
        self.calls[phase] += 1
        noise = self._draw(77) if self.fresh and self.calls[phase] == 3 else self.noise[phase]
        sampled = {"alpha": architecture["alpha"] + 0.5 * noise.to(inputs)}
        result: Tensor = self.inner(weights, sampled, inputs, phase=phase)
        return result


def sampling_learners(*, fresh: bool = False, dtype: torch.dtype = torch.float64) -> list[Learner]:
    learners = [learner_of(BUILDERS[i], i, dtype) for i in (0, 2)]
    for seed, learner in enumerate(learners):
        learner.apply = Gumbel(learner.apply, seed, fresh=fresh)
    return learners


def check_sampled_terms(mode: str, *, fresh: bool = False, **options: Any) -> None:
    """The terms of sampling learners against the unrolled problem with the same samples."""
    learners = sampling_learners(fresh=fresh)
    group = group_of(learners, hypergradient=mode, **options)
    found = group.architecture_gradients(*make_batches(), parts=True)
    for learner in learners:
        learner.begin_step(0)
    errors = term_errors(found, expected_terms(learners, **options))
    wrong = {term for (_, term), error in errors.items() if not error < TOLERANCE[torch.float64]}
    assert not wrong, f"wrong: {sorted(wrong)}"


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
@pytest.mark.parametrize("labels_from", ["v", "w", "w-joint"])
def test_replayed_noise_makes_every_term_right(mode: str, labels_from: str) -> None:
    check_sampled_terms(mode, labels_from=labels_from)


def test_control_fresh_noise_in_the_second_probe_is_seen() -> None:
    """In all that is made of probes, and in nothing else; exact products have none to be spoiled."""
    with pytest.raises(AssertionError, match=r"wrong: \['cross', 'label', 'own'\]"):
        check_sampled_terms("finite-difference", fresh=True)
    check_sampled_terms("exact", fresh=True)


def test_a_frozen_labeler_draws_anew_in_every_step_and_by_itself() -> None:
    learner = learner_of(Dropping, 1, torch.float64)
    labeler = learner.frozen()
    u = make_batches()[1]
    outputs = []
    for step in (0, 1, 0):
        labeler.begin_step(step)
        learner.begin_step(5)
        outputs.append(labeler(u))
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[1])
    learners = make_learners(2)
    group = group_of(learners, labels_from=[labeler, learner_of(Dropping, 2, torch.float64).frozen()])
    train, _, validation = make_batches()
    labels = [group.step(train, u, validation).learners[0].soft_labels for _ in range(2)]
    assert not torch.equal(labels[0], labels[1])  # type: ignore[arg-type]


def test_learners_that_draw_the_same_random_numbers_are_refused() -> None:
    learners = [learner_of(Dropping, seed, torch.float64) for seed in (1, 2)]
    for learner in learners:
        assert isinstance(learner.apply, ModuleApply)
        learner.apply.seed = 4
    before = state_of(learners)
    with pytest.raises(ValueError, match=r"learners 0 and 1 both have ModuleApply\(..., seed=4\)"):
        group_of(learners).step(*make_batches())
    assert same_bits(before, state_of(learners))


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_the_step_draws_what_the_gradient_drew(mode: str) -> None:
    learners = sampling_learners()
    group = group_of(learners, hypergradient=mode)
    for seed in range(3):
        expected = group.architecture_gradients(*make_batches(seed=seed))
        report = group.step(*make_batches(seed=seed))
        assert all(same_bits(a.gradient, b) for a, b in zip(report.learners, expected, strict=True))
    apply = learners[0].apply
    assert isinstance(apply, Gumbel)
    assert apply.steps == [0, 0, 1, 1, 2, 2]


class Dropping(nn.Module):
    """Dropout from torch's global generator, and batch norm with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        size = SHAPE[0] * SHAPE[1] * SHAPE[2]
        self.first, self.second = nn.Linear(size, 16), nn.Linear(16, 4)
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.4)
        self.mix = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        h, m = self.norm(self.first(x.flatten(1))), self.mix.softmax(dim=0)
        return self.second(self.drop(m[0] * torch.tanh(h) + m[1] * h))  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_any_module_is_made_pure_dropout_and_running_statistics_included(mode: str) -> None:
    learners = [learner_of(Dropping, seed, torch.float64) for seed in (1, 2)]
    group = group_of(learners, hypergradient=mode)
    found = group.architecture_gradients(*make_batches(), parts=True)
    errors = term_errors(found, expected_terms(learners))
    assert len(errors) == 8
    assert max(errors.values()) < 1e-3
    check_changes_nothing(group, make_batches())


def test_a_module_draws_anew_in_every_step_phase_and_seed() -> None:
    learner = learner_of(Dropping, 1, torch.float64)
    (x, _), _, _ = make_batches()
    outputs = []
    for step, phase in ((0, "w"), (0, "w"), (0, "v"), (1, "w")):
        learner.begin_step(step)
        outputs.append(learner.logits(learner.w, learner.architecture, x, phase))  # type: ignore[arg-type]
    assert isinstance(learner.apply, ModuleApply)
    learner.apply.seed = 2
    outputs.append(learner.logits(learner.w, learner.architecture, x, "w"))
    assert torch.equal(outputs[0], outputs[1])
    assert all(not torch.equal(outputs[i], outputs[j]) for i in range(1, 5) for j in range(1, i))


def test_control_an_apply_that_moves_statistics_is_seen() -> None:
    """The same module called without protecting its buffers."""
    learners = [learner_of(Dropping, seed, torch.float64) for seed in (1, 2)]
    for learner in learners:
        protected = learner.apply
        assert isinstance(protected, ModuleApply)
        learner.apply = Unprotected(protected.module)
    with pytest.raises(AssertionError):
        check_changes_nothing(group_of(learners), make_batches())


class Unprotected:
    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.module.get_submodule("drop").eval()

    def __call__(self, weights: Any, architecture: Any, inputs: Tensor, *, phase: Any = None) -> Tensor:  # noqa: ARG002
        result: Tensor = torch.func.functional_call(self.module, {**weights, **architecture}, (inputs,))
        return result


@pytest.mark.parametrize("mode", ["finite-difference", "exact"])
def test_noise_from_the_global_generator_is_refused_where_it_would_spoil_the_probes(mode: str) -> None:
    learners = make_learners(2)
    inner = learners[1].apply

    def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        logits: Tensor = inner(weights, architecture, inputs)
        return logits + 0.1 * torch.randn_like(logits)

    learners[1] = Learner(apply, learners[1].architecture, learners[1].v, learners[1].w)
    before = state_of(learners)
    with pytest.raises(ValueError, match="drew from torch's global generator"):
        group_of(learners, hypergradient=mode).step(*make_batches())
    assert same_bits(before, state_of(learners))
    group_of(learners, hypergradient="first-order").step(*make_batches())


def test_sampling_learners_are_independent_at_lambda_zero_too() -> None:
    group = group_of(sampling_learners(), lam=0.0)
    alone = [group_of([learner], lam=0.0) for learner in sampling_learners()]
    for seed in range(2):
        report = group.step(*make_batches(seed=seed))
        for k in range(2):
            single = alone[k].step(*make_batches(seed=seed))
            assert same_bits(report.learners[k].gradient, single.learners[0].gradient)
