"""DropNAS: what is dropped how often, and the correction after a step."""

import itertools
import re

import torch
from torch.optim import SGD

from smallgroup.group import Learner, Optimizers, SmallGroup
from smallgroup.methods.drop_nas import DropNas
from smallgroup.methods.sampling import TRAINING
from smallgroup.runtime import stream
from smallgroup.testing.groups import batches_for, learner_of, relaxed_of
from smallgroup.testing.small import small_space
from tests.methods.cases import ALPHA, fits, started, wide


def subsets(members: list[int], drop: float) -> dict[tuple[int, ...], float]:
    """The probability of each way to keep at least one of a group."""
    found = {}
    for count in range(1, len(members) + 1):
        for kept in itertools.combinations(members, count):
            found[kept] = drop ** (len(members) - count) * (1 - drop) ** count
    total = sum(found.values())
    return {kept: p / total for kept, p in found.items()}


def test_each_group_keeps_one_and_all_else_is_independent() -> None:
    """Of the smooth space 2 and 3 learn; 0, 1 and 4 do not."""
    method, architecture = wide(DropNas(rate=0.1), ALPHA[0])
    kept = method.draw(architecture, "w", stream(0))["cell"].bool()
    for members in ([2, 3], [0, 1, 4]):
        expected = subsets(members, 0.1 ** (1 / len(members)))
        code = sum(kept[:, member].long() << place for place, member in enumerate(members))
        assert isinstance(code, torch.Tensor)
        counts = code.bincount(minlength=2 ** len(members))
        assert int(counts[0]) == 0
        shares = {sum(1 << members.index(m) for m in ways): p for ways, p in expected.items()}
        assert fits(counts[1:], torch.tensor([shares[i] for i in range(1, len(counts))]).double())


def test_what_is_removed_counts_in_no_group() -> None:
    left = torch.tensor([True, False, False, True, False])
    method, architecture = wide(DropNas(rate=0.5), ALPHA[0], left)
    kept = method.draw(architecture, "w", stream(0))["cell"].bool()
    assert bool((kept == left).all())  # one of each group: it can never go


def test_as_published_one_in_thirteen_is_dropped() -> None:
    """3e-5 in a group of four: 0.074."""
    method = started(DropNas())
    group = torch.ones(100_000, 4, dtype=torch.bool)
    kept = method._kept(group, stream(3))
    torch.testing.assert_close(float((~kept).double().mean()), 3e-5**0.25, rtol=0.02, atol=0)


def test_the_softmax_is_over_what_is_kept_and_the_rest_does_not_run() -> None:
    method = started(DropNas())
    kept = torch.tensor([[1, 0, 1, 1, 0]] * 3).double()
    mixture = method.mix({"alpha_cell": ALPHA}, {"cell": kept}, "w")["cell"]
    exponentials = ALPHA.exp() * kept
    torch.testing.assert_close(mixture.weights, exponentials / exponentials.sum(dim=1, keepdim=True))
    assert mixture.evaluate == "active"
    assert bool((method.draw({"alpha_cell": ALPHA}, None, stream(0))["cell"] == 1).all())


def test_after_a_step_dropped_operations_keep_their_probability() -> None:
    method = started(DropNas())
    kept = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 1]]).double()
    moved = ALPHA + 0.3 * torch.randn(3, 5, generator=stream(1)).double()
    after = {"alpha_cell": moved.clone()}
    method.after_step(after, {"alpha_cell": ALPHA}, {"cell": kept})
    before, now = ALPHA.softmax(dim=1), after["alpha_cell"].softmax(dim=1)
    assert float((before - now)[kept == 0].abs().max()) < 1e-15
    differences = (after["alpha_cell"] - moved)[0, kept[0] == 1]
    torch.testing.assert_close(differences, differences[:1].expand(3))  # one constant for all of a row


def test_weights_decay_where_operations_are_kept_and_nowhere_else() -> None:
    """Published: L2 is for what is kept in a step. What takes no part in the steps of V or W stays as it is."""
    space = small_space("nas-bench-201")
    learners = [learner_of(space, DropNas(rate=0.25), number, torch.float32) for number in range(2)]
    optimizers = [Optimizers(v=decaying(weights_of(one)["v"]), w=decaying(weights_of(one)["w"])) for one in learners]
    before = [
        {role: {n: t.clone() for n, t in own.items()} for role, own in weights_of(one).items()} for one in learners
    ]
    group = SmallGroup(learners, optimizers=optimizers, hypergradient="first-order")
    kept = [
        {phase: relaxed_of(one).noise(one.architecture, phase)["cell"].bool() for phase in TRAINING} for one in learners
    ]
    group.step(*batches_for(space, torch.float32))
    stayed = moved = 0
    for one, old, drawn in zip(learners, before, kept, strict=True):
        for role, phases in (("v", ("v",)), ("w", ("w", "w_unlabeled"))):
            runs = torch.stack([drawn[phase] for phase in phases]).any(dim=0)  # type: ignore[index]
            for name, tensor in weights_of(one)[role].items():
                if found := re.search(r"edges\.(\d+)\.operations\.(\w+)\.", name):
                    column = space.kinds["cell"].operations.index(found[2])
                    if runs[int(found[1]), column]:
                        moved += not torch.equal(tensor, old[role][name])
                    else:
                        assert torch.equal(tensor, old[role][name]), name
                        stayed += 1
    assert stayed
    assert moved


def decaying(weights: dict[str, torch.Tensor]) -> SGD:
    return SGD([*weights.values()], lr=0.1, weight_decay=0.5)


def weights_of(learner: Learner) -> dict[str, dict[str, torch.Tensor]]:
    return {"v": dict(learner.v or {}), "w": dict(learner.w)}


def test_edges_are_ranked_by_raw_alpha() -> None:
    scores = started(DropNas()).scores({"alpha_cell": ALPHA})["cell"]
    assert scores.flatten().argsort(stable=True).tolist() == ALPHA.flatten().argsort(stable=True).tolist()
