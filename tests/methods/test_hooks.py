"""What each hook of the protocol computes, on toy methods."""

import torch

from smallgroup.group import Learner, SmallGroup
from smallgroup.methods import (
    Architecture,
    Continue,
    Darts,
    EpochEnd,
    Method,
    Noise,
    Rebuild,
    Relaxed,
    Stop,
)
from smallgroup.runtime import Phase, stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.space import Mixture
from smallgroup.testing import MethodContract, SmoothSpace
from smallgroup.testing.groups import batches_for, group_of, learner_of, relaxed_of
from tests.methods.toys import (
    SMALL,
    Adjusted,
    Adversarial,
    Binary,
    Children,
    Dropped,
    Frugal,
    Normalized,
    Staged,
    Tempered,
    progress,
)


class TestTempered(MethodContract):
    def method(self) -> Method:
        return Tempered()


class TestAdversarial(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Adversarial()


class TestBinary(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Binary()


class TestChildren(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Children()


class TestDropped(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Dropped()


class TestNormalized(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Normalized()


def test_pruning_goes_on_until_one_operation_is_left_and_asks_to_stop() -> None:
    learner = learner_of(SmoothSpace(), Tempered())
    method = relaxed_of(learner).method
    for tensor in learner.architecture.values():
        tensor.mul_(3)
    decisions = []
    for epoch in range(60):
        method.schedule(progress(epoch, 60))
        decisions.append(method.end_epoch(EpochEnd(progress(epoch, 60), learner.architecture, None)))
        if isinstance(decisions[-1], Stop):
            break
    assert isinstance(decisions[0], Continue)
    assert isinstance(decisions[-1], Stop)
    assert bool((method.mask("cell").sum(dim=1) == 1).all())
    assert not method.trains_architecture(progress(9, 60))
    assert method.trains_architecture(progress(10, 60))


def test_a_look_at_the_loss_raises_it_in_every_training_phase() -> None:
    space = SmoothSpace()
    losses = {}
    for method in (Darts, Adversarial):
        report = group_of(space, [method(), method()]).step(*batches_for(space)).learners[0]
        losses[method] = (report.v_loss, report.w_loss)
    for plain, disturbed in zip(losses[Darts], losses[Adversarial], strict=True):
        assert plain is not None
        assert disturbed is not None
        assert disturbed > plain


def test_what_was_found_by_looking_is_replayed_by_every_probe() -> None:
    learner = learner_of(SmoothSpace(), Adversarial())
    relaxed = relaxed_of(learner)
    seen: dict[Phase | None, list[Noise]] = {}
    (x, y), u, validation = batches_for(SmoothSpace())
    group = SmallGroup([learner, learner_of(SmoothSpace(), Darts(), 1)])
    original = relaxed.method.mix

    def mix(architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:
        seen.setdefault(phase, []).append({k: n.detach().clone() for k, n in noise.items()})
        return original(architecture, noise, phase)

    relaxed.method.mix = mix  # type: ignore[method-assign]
    group.step((x, y), u, validation)
    for phase in ("v", "w", "w_unlabeled"):
        # Five evaluations of the loss while looking, one pass for the step, two probes.
        assert len(seen[phase]) == 5 + 1 + 2
        assert all(torch.equal(seen[phase][-1]["cell"], other["cell"]) for other in seen[phase][5:])


def test_detached_operations_have_an_architecture_gradient_and_no_weight_gradient() -> None:
    """dL/dalpha_i = sum_j dL/dg_j p_j (delta_ij - p_i), with dL/dg_j = <upstream, o_j(x)> of all operations."""
    method = Binary()
    method.start(SmoothSpace())
    alpha = torch.tensor([[0.3, -0.2, 0.5, 0.1, 0.0]], dtype=torch.float64).expand(3, 5).clone().requires_grad_()
    noise = method.draw({"alpha_cell": alpha}, "w", stream("binary"))
    weights = method.mix({"alpha_cell": alpha}, noise, "w")["cell"].weights
    upstream = torch.randn(3, 5, generator=stream("up"), dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * upstream).sum(), alpha)
    p = alpha.detach().softmax(dim=1)
    torch.testing.assert_close(found, p * (upstream - (upstream * p).sum(dim=1, keepdim=True)))


def test_the_marginal_likelihood_of_children_is_differentiated() -> None:
    """sum_k omega_k grad log p(A_k), omega the softmax of the log-likelihoods."""
    method = Children()
    losses = torch.tensor([0.5, 0.7, 0.4], dtype=torch.float64)
    log_p = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(-8 * method.combine(losses, log_p, 8), log_p)
    torch.testing.assert_close(found, (-8 * losses).softmax(dim=0))


def test_a_transform_reaches_the_outputs_of_its_operation_alone() -> None:
    space = SmoothSpace(cells=1)
    (x, _), _, _ = batches_for(space)
    plain, dropped = learner_of(space, Darts()), learner_of(space, Dropped())
    for name in ("skip_connect", "avg_pool_3x3"):
        for learner in (plain, dropped):
            learner.architecture["alpha_cell"].fill_(-40.0)
            learner.architecture["alpha_cell"][:, space.kinds["cell"].operations.index(name)] = 0.0
        outputs = [learner.logits(learner.w, learner.architecture, x, "w") for learner in (plain, dropped)]
        assert torch.allclose(outputs[0], outputs[1], atol=1e-10) == (name != "skip_connect")


def test_a_correction_follows_the_step_of_the_group() -> None:
    group = group_of(SmoothSpace(), [Adjusted(), Darts()])
    before = [learner.architecture["alpha_cell"].clone() for learner in group.learners]
    group.step(*batches_for(SmoothSpace()))
    drift = [
        (learner.architecture["alpha_cell"] - old)[:, 0].abs().max()
        for learner, old in zip(group.learners, before, strict=True)
    ]
    assert drift[0] < 1e-12 < drift[1]


def test_costs_enter_a_penalty() -> None:
    group = group_of(SMALL, [Frugal()], hypergradient="first-order")
    plain = group_of(SMALL, [Darts()], hypergradient="first-order")
    parts = [g.architecture_gradients(*batches_for(SMALL))[0]["alpha_cell"] for g in (group, plain)]
    difference = parts[0] - parts[1]
    # A 3x3 convolution costs nine times a 1x1 one: its logit is pushed down most.
    assert bool((difference.argmax(dim=1) == 3).all())


def test_a_stage_rebuilds_the_supernet_and_the_search_goes_on() -> None:
    space = DartsSpace(channels=2, cells=3, stem="small", images=ImageSpec(4, 3, 8))
    relaxed = [Relaxed(space, Staged(), learner=k) for k in range(2)]
    sizes = []
    for stage in range(2):
        learners = [
            Learner(r, r.initial_architecture(), r.initial_weights("v"), r.initial_weights("w")) for r in relaxed
        ]
        group = SmallGroup(learners, hypergradient="first-order")
        sizes.append(sum(t.numel() for t in learners[0].w.values()))
        for epoch in range(2):
            group.step(*batches_for(space, torch.float32))
            for r, learner in zip(relaxed, learners, strict=True):
                end = EpochEnd(progress(2 * stage + epoch), learner.architecture, r.derive(learner.architecture))
                decision = r.method.end_epoch(end)
                if isinstance(decision, Rebuild):
                    r.rebuild(decision)
        assert all(r.stage == stage + 1 for r in relaxed)
        assert all(int(r.method.mask("normal").sum()) == 14 * (8 - 2 * (stage + 1)) for r in relaxed)
    assert isinstance(relaxed[0].space, DartsSpace)
    assert relaxed[0].space.cells == 5
    again = Relaxed(space, Staged())
    again.load_state(relaxed[0].state())
    assert again.space == relaxed[0].space
    assert dict(again.supernet.named_parameters()).keys() == dict(relaxed[0].supernet.named_parameters()).keys()
    weights, expected = again.initial_weights("w"), relaxed[0].initial_weights("w")
    assert weights.keys() == expected.keys()
    assert all(torch.equal(t, expected[n]) for n, t in weights.items())
