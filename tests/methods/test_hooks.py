"""One toy method per hook: what the protocol is able to carry, each in a few lines, and what it computes."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import Learner, SmallGroup
from smallgroup.methods import (
    Architecture,
    Continue,
    Darts,
    Decision,
    EpochEnd,
    Gdas,
    Method,
    Noise,
    Progress,
    Rebuild,
    Relaxed,
    Stop,
)
from smallgroup.runtime import Phase, stream
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Choice, EdgeParts, Evaluation, Mixture, Space
from smallgroup.testing import MethodContract, SmoothSpace
from smallgroup.testing.groups import batches_for, group_of, learner_of, relaxed_of

SMALL = NasBench201Space(channels=2, cells_per_stage=1, classes=4, image_size=8)


def progress(epoch: int = 0, epochs: int = 10) -> Progress:
    return Progress(epoch=epoch, epochs=epochs, step=0, steps=1)


class Tempered(Method):
    """A temperature that falls (as in ASAP), and operations that fall with it."""

    name: ClassVar[str] = "tempered"

    def schedule(self, progress: Progress) -> None:
        self.state["temperature"] = torch.tensor(1.6 * 0.95**progress.epoch)

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        return (alpha / self.state.get("temperature", torch.ones(()))).softmax(dim=1)

    def trains_architecture(self, progress: Progress) -> bool:
        return progress.epoch >= 10

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        for kind, alpha in self.logits(epoch.architecture).items():
            w = self.relax(alpha, None, None)
            keep = w >= 0.4 / alpha.shape[1]
            keep[torch.arange(len(w)), w.argmax(dim=1)] = True
            self.keep(kind, self.mask(kind) & keep)
        left = sum(int(self.mask(kind).sum()) for kind in self.logits(epoch.architecture))
        return Stop("one operation per edge is left") if left == 3 else Continue()


class Adversarial(Method):
    """Mixing weights disturbed so that the training loss rises (as in SDARTS-ADV), in training phases alone."""

    name: ClassVar[str] = "adversarial"
    epsilon: ClassVar[float] = 0.1

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:
        if phase not in ("v", "w", "w_unlabeled"):
            return {}
        return {
            kind: self.epsilon * (2 * torch.rand(alpha.shape, generator=generator) - 1).to(alpha)
            for kind, alpha in self.logits(architecture).items()
        }

    def look(
        self,
        architecture: Architecture,  # noqa: ARG002
        noise: Noise,
        phase: Phase,  # noqa: ARG002
        loss: Callable[[Noise], Tensor],
    ) -> Noise:
        delta = dict(noise)
        for _ in range(3):
            leaves = {kind: d.detach().requires_grad_() for kind, d in delta.items()}
            gradients = torch.autograd.grad(loss(leaves), list(leaves.values()))
            delta = {
                kind: (d + 0.5 * self.epsilon * g.sign()).clamp(-self.epsilon, self.epsilon)
                for (kind, d), g in zip(delta.items(), gradients, strict=True)
            }
        return delta if loss(delta) > loss(noise) else noise

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        w = alpha.softmax(dim=1)
        if noise is None:
            return w
        w = (w + torch.where(w > 0, noise, 0.0)).clamp(0, 1)
        return w / w.sum(dim=1, keepdim=True)


class Binary(Gdas):
    """One operation runs with a gradient and the others without (as in ProxylessNAS)."""

    name: ClassVar[str] = "binary"
    evaluate: ClassVar[Evaluation] = "detached"

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        assert noise is not None
        p = alpha.softmax(dim=1)
        chosen = F.one_hot((alpha + noise).argmax(dim=1), p.shape[1]).to(p)
        return chosen + p - p.detach()


class Children(Gdas):
    """Several sampled networks and their marginal likelihood (as in PARSEC)."""

    name: ClassVar[str] = "children"
    samples: ClassVar[int] = 3

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        assert noise is not None
        # Through the log-probability alone, see `log_probability`; the product keeps the architecture in the graph.
        chosen = F.one_hot((alpha + noise).argmax(dim=1), alpha.shape[1]).to(alpha)
        return chosen * (1 + 0 * alpha.softmax(dim=1))

    def log_probability(self, architecture: Architecture, noise: Noise) -> Tensor:
        total = torch.zeros(())
        for kind, alpha in self.logits(architecture).items():
            chosen = (alpha + noise[kind]).argmax(dim=1, keepdim=True)
            total = total + alpha.log_softmax(dim=1).gather(1, chosen).sum()
        return total

    def combine(self, losses: Tensor, log_probabilities: Tensor, size: int) -> Tensor:
        score = log_probabilities - log_probabilities.detach() - size * losses
        return -(torch.logsumexp(score, dim=0) - torch.tensor(float(len(losses))).log()) / size


class Dropped(Method):
    """Noise on what skip connections give (as in NoisyDARTS and P-DARTS), with the method's own stream."""

    name: ClassVar[str] = "dropped"

    def transform(
        self,
        operation: str,
        output: Tensor,
        generator: torch.Generator,
        phase: Phase | None,  # noqa: ARG002
    ) -> Tensor:
        if operation != "skip_connect":
            return output
        kept = torch.rand(output.shape[:2], generator=generator) < 0.7
        return output * kept[:, :, None, None].to(output) / 0.7


class Adjusted(Method):
    """A correction after the step (as in DropNAS): a row is shifted so that its first entry stays what it was."""

    name: ClassVar[str] = "adjusted"

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:  # noqa: ARG002
        for name, alpha in architecture.items():
            alpha.sub_((alpha - before[name])[:, :1])


class Partial(nn.Module):
    """Half of the channels mixed, the other half passed by (as in PC-DARTS)."""

    def __init__(self, parts: EdgeParts) -> None:
        super().__init__()
        self.mixed_channels = parts.channels // 2
        self.mixed = MixedEdge(EdgeParts(parts.operations, self.mixed_channels, parts.stride, parts.make))

    def forward(self, inputs: Tensor, choice: Choice) -> Tensor:
        chosen = self.mixed(inputs[:, : self.mixed_channels], choice)
        rest = inputs[:, self.mixed_channels :]
        return torch.cat([chosen, rest if rest.shape[-1] == chosen.shape[-1] else F.max_pool2d(rest, 2, 2)], dim=1)


class Normalised(Method):
    """Edges with weights of their own beside those of operations (as in PC-DARTS)."""

    name: ClassVar[str] = "normalised"

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        betas = {
            f"beta_{name}": 1e-3 * torch.randn(len(kind.edges), generator=generator)
            for name, kind in space.kinds.items()
        }
        return {**super().initial(space, generator), **betas}

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:  # noqa: ARG002
        return {
            kind: Mixture(alpha.softmax(dim=1), edges=architecture[f"beta_{kind}"].softmax(dim=0))
            for kind, alpha in self.logits(architecture).items()
        }

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        return Partial(parts)

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        return self.masked(
            {
                kind: alpha.softmax(dim=1) * architecture[f"beta_{kind}"].softmax(dim=0)[:, None]
                for kind, alpha in self.logits(architecture).items()
            }
        )


@dataclass
class Staged(Method):
    """Fewer operations and more cells from stage to stage (as in P-DARTS)."""

    name: ClassVar[str] = "staged"
    every: int = 2

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        if (epoch.progress.epoch + 1) % self.every:
            return Continue()
        for kind, scores in self.scores(epoch.architecture).items():
            weakest = scores.masked_fill(~self.mask(kind), torch.inf).topk(2, dim=1, largest=False).indices
            self.keep(kind, self.mask(kind).scatter(1, weakest, False))
        return Rebuild({"cells": 5})


class Frugal(Method):
    """A penalty on the expected multiply-adds."""

    name: ClassVar[str] = "frugal"

    def penalty(self, architecture: Architecture, costs: Callable[[], Any]) -> Tensor:
        table = costs()
        expected = [
            (alpha.softmax(dim=1) * table[kind].to(alpha)).sum() for kind, alpha in self.logits(architecture).items()
        ]
        return 1e-6 * torch.stack(expected).sum()


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


class TestNormalised(MethodContract):
    spaces = ("nas-bench-201",)

    def method(self) -> Method:
        return Normalised()


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
    space = DartsSpace(channels=2, cells=3, classes=4, stem="small", image_size=8)
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


def test_a_mask_may_not_leave_an_edge_empty() -> None:
    method = Darts()
    method.start(SmoothSpace())
    with pytest.raises(ValueError, match="every edge must keep an operation"):
        method.keep("cell", torch.zeros(3, 5, dtype=torch.bool))


def test_learners_do_not_share_a_method() -> None:
    method = Darts()
    Relaxed(SMALL, method)
    with pytest.raises(ValueError, match="a method of its own"):
        Relaxed(SMALL, method, learner=1)


def test_a_frozen_learner_keeps_its_temperature() -> None:
    learner = learner_of(SmoothSpace(), Tempered())
    (x, _), _, _ = batches_for(SmoothSpace())
    frozen = learner.frozen()
    before = frozen(x)
    relaxed_of(learner).method.schedule(progress(9))
    assert torch.equal(before, frozen(x))
    assert not torch.equal(before, learner.logits(learner.w, learner.architecture, x, "label"))


@pytest.mark.parametrize("shape", [(4, 1, 8, 8), (3, 8, 8)])
def test_images_of_another_kind_are_refused(shape: tuple[int, ...]) -> None:
    learner = learner_of(SMALL, Darts())
    with pytest.raises(ValueError, match=r"images must be \[batch, 3, height, width\]"):
        learner.logits(learner.w, learner.architecture, torch.zeros(shape, dtype=torch.float64), "w")


def test_a_state_saved_after_pruning_fits_the_weights_it_was_saved_with() -> None:
    learner = learner_of(SmoothSpace(), Darts())
    relaxed = relaxed_of(learner)
    mask = relaxed.method.mask("cell").clone()
    mask[:, 2] = False
    relaxed.method.keep("cell", mask)
    again = Relaxed(SmoothSpace(), Darts())
    again.load_state(relaxed.state())
    (x, _), _, _ = batches_for(SmoothSpace())
    assert torch.equal(
        relaxed(learner.w, learner.architecture, x, phase="w"), again(learner.w, learner.architecture, x, phase="w")
    )
    assert torch.equal(again.method.mask("cell"), mask)


def test_a_state_from_before_a_stage_leads_back_to_its_size_and_its_numbers() -> None:
    relaxed = Relaxed(SmoothSpace(), Gdas())
    architecture = relaxed.initial_architecture()
    before, weights = relaxed.state(), relaxed.initial_weights("w")
    noise = relaxed.noise(architecture, "w")["cell"]
    relaxed.rebuild(Rebuild({"cells": 4}))
    assert not torch.equal(noise, relaxed.noise(architecture, "w")["cell"])
    assert not torch.equal(weights["stem.weight"], relaxed.initial_weights("w")["stem.weight"])
    assert not torch.equal(architecture["alpha_cell"], relaxed.initial_architecture()["alpha_cell"])
    relaxed.load_state(before)
    assert (relaxed.space, relaxed.stage) == (SmoothSpace(), 0)
    assert torch.equal(noise, relaxed.noise(architecture, "w")["cell"])


def test_a_copy_does_not_follow_its_original_into_a_new_stage() -> None:
    relaxed = Relaxed(SmoothSpace(), Darts())
    other = copy(relaxed)
    relaxed.rebuild(Rebuild({"cells": 4}))
    assert "space.cells" in relaxed.state()
    assert "space.cells" not in other.state()


@pytest.mark.parametrize(
    ("kind", "mask", "message"),
    [
        ("cells", torch.ones(3, 5, dtype=torch.bool), "there is no kind 'cells'"),
        ("cell", torch.ones(1, 5, dtype=torch.bool), r"must be bool of shape \(3, 5\)"),
        ("cell", torch.ones(3, 5), "must be bool"),
    ],
)
def test_masks_of_another_form_are_refused(kind: str, mask: Tensor, message: str) -> None:
    method = Darts()
    method.start(SmoothSpace())
    with pytest.raises(ValueError, match=message):
        method.keep(kind, mask)


def test_states_and_stages_of_another_form_are_refused() -> None:
    relaxed = Relaxed(SmoothSpace(), Darts())
    darts = Relaxed(DartsSpace(channels=2, cells=3), Darts()).state()
    for state in ({}, relaxed.state() | {"foo.bar": torch.ones(1)}, darts):
        with pytest.raises(ValueError, match="a saved state must be one of a method"):
            relaxed.load_state(state)
    with pytest.raises(ValueError, match="a new stage changes fields of smooth"):
        relaxed.rebuild(Rebuild({"rooms": 4}))


def test_transforms_differ_from_cell_to_cell_and_edge_to_edge() -> None:
    seen: dict[tuple[int, ...], Tensor] = {}

    class Noted(Dropped):
        def transform(self, operation: str, output: Tensor, generator: torch.Generator, phase: Phase | None) -> Tensor:  # noqa: ARG002
            seen[(len(seen),)] = torch.rand(4, generator=generator)
            return output

    learner = learner_of(SmoothSpace(), Noted())
    (x, _), _, _ = batches_for(SmoothSpace())
    learner.logits(learner.w, learner.architecture, x, "w")
    drawn = {tuple(values.tolist()) for values in seen.values()}
    assert len(drawn) == len(seen) == 2 * 3 * 4
