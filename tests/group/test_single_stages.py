"""Stages taken alone: labelers before they teach, and architectures where the weights stand."""

import pytest
import torch
from torch.nn import functional as F

from smallgroup.group import NonFiniteError
from tests.group.checks import group_of
from tests.group.networks import make_batches, make_learners, same_bits, state_of


def test_labelers_alone_move_as_in_a_whole_step_and_nothing_else_moves() -> None:
    whole, alone = make_learners(2), make_learners(2)
    before = state_of(alone)
    group_of(whole).step(*make_batches())
    group = group_of(alone)
    report = group.step_labelers(make_batches()[0])
    for k, learner in enumerate(alone):
        assert same_bits(learner.v or {}, whole[k].v or {})
        assert report.learners[k].v_loss is not None
        assert report.learners[k].validation_loss is None
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(alone).items() if "/v/" not in name)
    assert group.steps == 1


def test_labelers_need_to_be_there() -> None:
    with pytest.raises(ValueError, match="first weights v"):
        group_of(make_learners(2), labels_from="w").step_labelers(make_batches()[0])


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
def test_architectures_alone_follow_the_validation_loss_where_the_weights_stand(mode: str) -> None:
    learners = make_learners(2)
    _, _, (x, y) = make_batches()
    expected = []
    for learner in learners:
        leaves = {n: t.clone().requires_grad_() for n, t in learner.architecture.items()}
        loss = F.cross_entropy(learner.logits(learner.w, leaves, x, "val"), y)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        expected.append({n: (t - 0.5 * g).detach() for (n, t), g in zip(leaves.items(), gradients, strict=True)})
    before = state_of(learners)
    group = group_of(learners, hypergradient=mode, architecture_lr=0.5)
    report = group.step_architectures((x, y))
    for k, learner in enumerate(learners):
        for name, tensor in learner.architecture.items():
            torch.testing.assert_close(tensor, expected[k][name])
        assert report.learners[k].norms["direct"] > 0
        assert report.learners[k].norms["own"] == report.learners[k].norms["cross"] == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(learners).items() if "/a/" not in name)
    assert group.steps == 0


def test_a_single_stage_that_fails_changes_nothing() -> None:
    learners = make_learners(2)
    learners[1].w[next(iter(learners[1].w))].fill_(float("inf"))
    before = state_of(learners)
    (_, _), _, validation = make_batches()
    with pytest.raises(NonFiniteError, match="learner 1"):
        group_of(learners).step_architectures(validation)
    assert same_bits(before, state_of(learners))


def test_architectures_of_some_learners_alone() -> None:
    """The others learn and teach as ever: their part of the gradients of those that move is the same."""
    whole, part = make_learners(3), make_learners(3)
    before = state_of(part)
    reports = [group_of(whole).step(*make_batches())]
    reports.append(group_of(part).step(*make_batches(), moving=[True, False, True]))
    for k, learner in enumerate(part):
        stays = {name: t for name, t in before.items() if name.startswith(f"{k}/a/")}
        assert same_bits(learner.architecture, whole[k].architecture) is (k != 1)
        assert same_bits(learner.w, whole[k].w)
        assert same_bits(learner.v or {}, whole[k].v or {})
        assert all(torch.equal(t, state_of(part)[name]) for name, t in stays.items()) is (k == 1)
        assert same_bits(reports[0].learners[k].gradient, reports[1].learners[k].gradient)


def test_whose_architectures_move_is_said_of_everybody() -> None:
    with pytest.raises(ValueError, match=r"moving must say of each of the 2 learners .* but it has 1 entries"):
        group_of(make_learners(2)).step(*make_batches(), moving=[True])
