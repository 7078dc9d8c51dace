"""What every method has to keep to, so that a group can rely on it."""

import random
from typing import get_args

import numpy
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from smallgroup.group import Phase, SmallGroup
from smallgroup.methods import Darts, EpochEnd, Method, Progress, Relaxed
from smallgroup.spaces import SPACES, definition_of
from smallgroup.spaces.edges import MixedNodes
from smallgroup.spaces.space import Space
from smallgroup.spaces.weights import initialize
from smallgroup.testing.groups import GroupBatches, batches_for, group_of, learner_of, relaxed_of
from smallgroup.testing.small import small_network, small_space
from smallgroup.testing.smooth import SmoothSpace

SMALL: dict[str, Space] = {name: small_space(name) for name in SPACES.built_in if definition_of(name).strides}
PHASES: tuple[Phase, ...] = get_args(Phase)


class MethodContract:
    """Tests of a method: inherit, and return a new instance from `method`; `spaces` are those it works in."""

    spaces: tuple[str, ...] = tuple(SMALL)

    def method(self) -> Method:
        """Return a new instance of the method under test."""
        raise NotImplementedError

    @pytest.fixture(params=tuple(SMALL))
    def space(self, request: pytest.FixtureRequest) -> Space:
        """Return two built-in spaces at a tiny size."""
        if request.param not in self.spaces:
            pytest.skip(f"not for {request.param}")
        return SMALL[request.param]

    # Randomness.

    def test_noise_replays(self) -> None:
        """Check that a pass is a function of (seed, learner, step, phase): repeated, it gives the same bits."""
        space = SmoothSpace()
        first, second = learner_of(space, self.method()), learner_of(space, self.method())
        (x, _), _, _ = batches_for(space)
        for step in (3, 0):
            first.begin_step(step)
            outputs = {phase: first.logits(first.w, first.architecture, x, phase) for phase in PHASES}
            second.begin_step(step)
            for phase in reversed(PHASES):
                for learner in (first, second):
                    again = learner.logits(learner.w, learner.architecture, x, phase)
                    assert torch.equal(outputs[phase], again), f"phase {phase!r} of step {step} does not replay"

    def test_noise_is_drawn_anew(self) -> None:
        """Check that a random pass differs from step to step, from phase to phase and between learners."""
        space = SmoothSpace()
        (x, _), _, _ = batches_for(space)
        base = learner_of(space, self.method())

        def outputs(number: int, phase: Phase) -> list[Tensor]:
            relaxed = Relaxed(space, self.method(), learner=number)
            found = []
            for step in range(8):
                relaxed.begin_step(step)
                found.append(relaxed(base.w, base.architecture, x, phase=phase))
            return found

        first = outputs(0, "w")
        if not all(torch.equal(first[0], other) for other in first):
            for what, others in (("learner", outputs(1, "w")), ("phase", outputs(0, "w_unlabeled"))):
                same = [torch.equal(one, other) for one, other in zip(first, others, strict=True)]
                assert not all(same), f"what is random does not depend on the {what}"

    def test_global_generators_are_left_alone(self) -> None:
        """Check that no number is drawn from generators of torch, numpy or Python, also while the network is built."""
        before = _global_states()
        space = SmoothSpace()
        group = group_of(space, [self.method(), self.method()])
        group.step(*batches_for(space))
        for learner in group.learners:
            relaxed, progress = relaxed_of(learner), Progress(epoch=0, epochs=2, step=0, steps=2)
            relaxed.method.schedule(progress)
            genotype = relaxed.derive(learner.architecture)
            relaxed.method.end_epoch(EpochEnd(progress, learner.architecture, genotype))
        assert before == _global_states()

    # Gradients.

    def test_finite_differences_agree_with_exact_derivatives(self) -> None:
        """Check on a smooth space that every term is the same in both modes, to the accuracy of central differences."""
        space = SmoothSpace()
        found = {}
        for mode in ("finite-difference", "exact"):
            group = group_of(space, [self.method(), self.method()], hypergradient=mode, radius=1e-4)
            found[mode] = group.architecture_gradients(*batches_for(space), parts=True)
        for k, terms in enumerate(found["exact"]):
            for term, tensors in terms.items():
                gap, size = _distance(found["finite-difference"][k][term], tensors)
                assert gap <= 1e-5 * size + 1e-12, f"{term} of learner {k} is off by {gap:.1e}, its norm is {size:.1e}"

    @pytest.mark.parametrize("count", [1, 2, 3])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_groups_of_any_size_take_steps(self, count: int, dtype: torch.dtype) -> None:
        """Check that weights and architectures move, stay finite, and keep their dtype."""
        space = SmoothSpace()
        group = group_of(space, [self.method() for _ in range(count)], dtype)
        _take_steps(group, batches_for(space, dtype))

    def test_it_works_beside_another_method(self) -> None:
        """Check that learners of one group need not be alike."""
        space = SmoothSpace()
        group = group_of(space, [self.method(), Darts()])
        _take_steps(group, batches_for(space))

    def test_first_order_works_in_the_built_in_spaces(self, space: Space) -> None:
        """Check the cheap mode in the built-in spaces."""
        group = group_of(space, [self.method(), self.method()], torch.float32, hypergradient="first-order")
        _take_steps(group, batches_for(space, torch.float32))

    def test_both_dtypes_compute_the_same(self) -> None:
        """Check that the draw does not depend on the precision, and the logits only up to rounding."""
        space = SmoothSpace()
        outputs = []
        for dtype in (torch.float32, torch.float64):
            learner = learner_of(space, self.method(), dtype=dtype)
            learner.begin_step(1)
            outputs.append(learner.logits(learner.w, learner.architecture, batches_for(space, dtype)[0][0], "w"))
            assert outputs[-1].dtype == dtype
        assert torch.allclose(outputs[0].double(), outputs[1], atol=1e-4)

    # The course of a search.

    def test_state_survives_save_and_load(self) -> None:
        """Check that all that changes is in `state`, as tensors: saved and loaded, it continues with the same bits."""
        space = SmoothSpace()
        group = group_of(space, [self.method(), self.method()])
        learner, method = group.learners[0], self.method()
        relaxed = relaxed_of(learner)
        options = _options(relaxed.method)
        group.step(*batches_for(space))
        for epoch in range(16):
            progress = Progress(epoch=epoch, epochs=20, step=5 * epoch, steps=100)
            relaxed.method.schedule(progress)
            relaxed.method.end_epoch(EpochEnd(progress, learner.architecture, relaxed.derive(learner.architecture)))
        relaxed.begin_step(11)
        other = Relaxed(space, method)
        other.load_state(load(save(relaxed.state())))
        (x, _), _, _ = batches_for(space)
        for phase in PHASES:
            expected = relaxed(learner.w, learner.architecture, x, phase=phase)
            assert torch.equal(expected, other(learner.w, learner.architecture, x, phase=phase)), phase
        assert relaxed.derive(learner.architecture) == other.derive(learner.architecture)
        assert _options(relaxed.method) == options == _options(method), "options must not change; use `state`"

    def test_masks_are_respected(self, space: Space) -> None:
        """Check that removed operations do not run, have no weight and are not chosen."""
        learner = learner_of(space, self.method())
        relaxed = relaxed_of(learner)
        generator = torch.Generator().manual_seed(0)
        for name, kind in space.kinds.items():
            mask = relaxed.method.mask(name) & (torch.rand(kind.shape, generator=generator) < 0.5)
            mask[~mask.any(dim=1)] = relaxed.method.mask(name)[0]
            relaxed.method.keep(name, mask)
        _forbid_removed(relaxed)
        (x, _), _, _ = batches_for(space)
        for step in range(3):
            relaxed.begin_step(step)
            relaxed(learner.w, learner.architecture, x, phase="w")
            mixtures = relaxed.method.mix(learner.architecture, relaxed.noise(learner.architecture, "w"), "w")
            for name, mixture in mixtures.items():
                assert not bool(mixture.weights[~relaxed.method.mask(name)].any()), "a removed one has weight"
        for name, table in space.chosen(relaxed.derive(learner.architecture)).items():
            for i, operation in enumerate(space.kinds[name].operations):
                removed = ~relaxed.method.mask(name)[:, i]
                assert operation == "none" or not bool(table[removed, i].any()), f"{operation} was removed and chosen"
        for name, scores in relaxed.method.scores(learner.architecture).items():
            assert bool((scores[~relaxed.method.mask(name)] == -torch.inf).all()), "a removed one has a score"

    def test_the_supernet_has_no_buffers(self) -> None:
        """Check that the edges that a method builds have no buffers either: probes leave no trace."""
        assert not list(Relaxed(SmoothSpace(), self.method()).supernet.named_buffers())

    # The end.

    def test_the_derived_genotype_is_valid_and_can_be_built(self, space: Space) -> None:
        """Check derived genotypes at the very start, and at architectures far from it."""
        relaxed = Relaxed(space, self.method())
        generator = torch.Generator().manual_seed(0)
        for scale in (0.0, 0.3, 3.0, 30.0):
            architecture = {
                name: tensor + scale * torch.randn(tensor.shape, generator=generator)
                for name, tensor in relaxed.initial_architecture().items()
            }
            genotype = relaxed.derive(architecture)
            network = initialize(small_network(genotype), generator)
            logits = network.eval()(torch.randn(2, *space.images.shape, generator=generator))
            assert logits.shape == (2, 4)
            assert bool(logits.isfinite().all())


def _forbid_removed(relaxed: Relaxed) -> None:
    """Make every operation that the masks remove fail when it runs; edges of a method's own making see to it alone."""

    def fail(operation: nn.Module, _: object) -> None:
        raise AssertionError(f"a removed operation ran: {operation}")

    for nodes in relaxed.supernet.modules():
        if isinstance(nodes, MixedNodes):
            mask = relaxed.method.mask(nodes.kind.name)
            for e, edge in enumerate(nodes.edges):
                operations = getattr(edge, "operations", {})
                for i, name in enumerate(nodes.kind.operations):
                    if not bool(mask[e, i]) and name in operations:
                        operations[name].register_forward_pre_hook(fail)


def _take_steps(group: SmallGroup, batches: GroupBatches) -> None:
    before = [{**learner.w, **learner.architecture} for learner in group.learners]
    before = [{name: tensor.clone() for name, tensor in tensors.items()} for tensors in before]
    for _ in range(2):
        report = group.step(*batches)
        for k, one in enumerate(report.learners):
            assert one.validation_loss is not None
            assert all(bool(g.isfinite().all()) for g in one.gradient.values()), f"learner {k}"
    for learner, old in zip(group.learners, before, strict=True):
        for tensors in (learner.w, learner.architecture):
            assert all(bool(t.isfinite().all()) for t in tensors.values())
            assert any(not torch.equal(t, old[name]) for name, t in tensors.items()), "nothing moved"


def _distance(found: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[float, float]:
    gap = torch.cat([(found[name] - tensor).flatten() for name, tensor in expected.items()])
    size = torch.cat([tensor.flatten() for tensor in expected.values()])
    return float(gap.norm()), float(size.norm())


def _options(method: Method) -> dict[str, str]:
    """Return everything that an instance and its class hold, except `state` and what they keep within a step."""
    of_class = {n: repr(v) for n, v in vars(type(method)).items() if not callable(v) and not n.startswith("__")}
    return of_class | {name: repr(value) for name, value in vars(method).items() if name not in ("state", "seen")}


def _global_states() -> list[str]:
    """Return the states of the global generators, which no method may touch."""
    return [str(torch.get_rng_state().tolist()), repr(numpy.random.get_state()), str(random.getstate())]  # noqa: NPY002
