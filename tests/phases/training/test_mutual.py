"""Deep mutual learning: the loss against its formula, steps against plain torch, and who does not matter to whom."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data import DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.group import Learner, SmallGroup
from smallgroup.phases.training import MutualJob, Peers, TrainingConfig, TrainingJob
from smallgroup.phases.training.mutual import divergences
from smallgroup.phases.training.trainee import NonFiniteTrainingError
from smallgroup.runtime import stream
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.outputs import Outputs
from tests.configs import FULL_SIZE, training_config
from tests.phases.training.models import BENCHMARK, DARTS

CELL = str(BENCHMARK)
OTHER = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_1x1~2|"
SMALL = NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="two-norms")


def options(**changes: Any) -> TrainingConfig:
    given = {"epochs": 2, "steps_per_epoch": 3, "batch_size": 16, "network": SMALL, "drop_path": 0.3, **changes}
    return training_config(**given)


def job(*genotypes: Any, weight: float = 1.0, seed: int = 0, **changes: Any) -> MutualJob:
    cells = tuple(resolve(each)[1] if isinstance(each, str) else each for each in genotypes)
    config = options(**changes)
    return MutualJob(
        config, open_training_data(DataConfig(), config.augmentation, seed=1), Peers(cells, weight), seed=seed
    )


def alone(genotype: Any, seed: int = 0, **changes: Any) -> TrainingJob:
    cell, config = resolve(genotype)[1] if isinstance(genotype, str) else genotype, options(**changes)
    return TrainingJob(config, open_training_data(DataConfig(), config.augmentation, seed=1), cell, seed=seed)


def states(group: MutualJob) -> list[dict[str, Tensor]]:
    return [{name: tensor.clone() for name, tensor in trainee.state()[0].items()} for trainee in group.trainees]


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def finish(training: Any) -> list[Any]:
    rows: list[Any] = []
    while not training.finished:
        rows += training.advance() or []
    return rows


def tables(count: int, images: int = 5, classes: int = 4) -> list[Tensor]:
    generator = stream("logits")
    return [3 * torch.randn(images, classes, generator=generator, dtype=torch.float64) for _ in range(count)]


def divergence(own: list[list[float]], peers: list[list[list[float]]]) -> float:
    """The formula with the numbers of Python alone."""

    def probabilities(row: list[float]) -> list[float]:
        weights = [math.exp(value) for value in row]
        return [weight / sum(weights) for weight in weights]

    total = 0.0
    for peer in peers:
        for mine, theirs in zip(own, peer, strict=True):
            q, p = probabilities(mine), probabilities(theirs)
            total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / len(own)
    return total / len(peers)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_divergence_is_that_of_the_formula(count: int) -> None:
    logits = tables(count)
    found, plain = divergences(logits), [table.tolist() for table in logits]
    for k in range(count):
        expected = divergence(plain[k], plain[:k] + plain[k + 1 :])
        assert float(found[k]) == pytest.approx(expected, rel=1e-12)
        # In the other direction it is another number.
        assert count > 2 or float(found[k]) != pytest.approx(divergence(plain[1 - k], [plain[k]]), rel=1e-3)


def test_equal_answers_are_no_distance_apart_and_far_ones_are_finite() -> None:
    (table,) = tables(1)
    assert [float(value) for value in divergences([table, table + 7.0])] == pytest.approx([0, 0], abs=1e-12)
    certain = torch.tensor([[1000.0, 0.0]])
    for value in divergences([certain, -certain]):
        assert float(value) == 1000


@pytest.mark.parametrize("count", [2, 4])
def test_the_gradient_is_the_difference_of_the_answers_and_not_the_teachers(count: int) -> None:
    """d/d(logits of k) = (p_k - mean of the p_j) / images; nothing moves the peers."""
    logits = [table.requires_grad_() for table in tables(count)]
    for k, value in enumerate(divergences(logits)):
        gradients = torch.autograd.grad(value, logits, allow_unused=True)
        peers = [table.softmax(dim=1) for j, table in enumerate(logits) if j != k]
        expected = (logits[k].softmax(dim=1) - torch.stack(peers).mean(dim=0)) / len(logits[k])
        mine = gradients[k]
        assert mine is not None
        torch.testing.assert_close(mine, expected.detach(), rtol=1e-10, atol=1e-12)
        assert [j for j, gradient in enumerate(gradients) if gradient is not None] == [k]


def test_in_the_networks_too_nothing_moves_the_teachers() -> None:
    group = job(DARTS, CELL)
    x, y = group.batches.batch(0)
    for trainee in group.trainees:
        trainee.begin(0)
    answers = [trainee.answer(x, y, step=0, part=0) for trainee in group.trainees]
    divergences([answer.logits for answer in answers])[1].backward()  # type: ignore[no-untyped-call]
    touched = [any(p.grad is not None for p in trainee.network.parameters()) for trainee in group.trainees]
    assert touched == [False, True]


def test_the_order_of_the_peers_does_not_matter() -> None:
    logits, order = tables(4), [2, 0, 3, 1]
    found, other = divergences(logits), divergences([logits[k] for k in order])
    for place, k in enumerate(order):
        torch.testing.assert_close(other[place], found[k], rtol=1e-12, atol=0)


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_a_step_is_that_of_plain_torch(weight: float) -> None:
    """All networks move from the answers of the same step; three peers, written out with probabilities."""
    settings: dict[str, Any] = {"label_smoothing": 0.1, "clip": 0.5, "momentum": 0.8, "lr": 0.2, "steps_per_epoch": 2}
    cells = (DARTS, CELL, OTHER)
    group, plain = job(*cells, weight=weight, **settings), job(*cells, weight=9.0, **settings)
    networks = [trainee.network for trainee in plain.trainees]
    keys: list[tuple[Any, ...]] = [(0, "evaluation"), *((0, "evaluation", "learner", k) for k in (1, 2))]
    optimizers = [torch.optim.SGD(n.parameters(), momentum=0.8, weight_decay=3e-4, lr=9.0) for n in networks]
    for step in range(4):
        group.advance()
        x, y = plain.batches.batch(step)
        networks[0].drop_path = 0.0 if step < 2 else 0.15  # the others are of a space that has none
        outputs = [Outputs.of(network(x, (*key, step, 0))) for network, key in zip(networks, keys, strict=True)]
        p = [out.logits.softmax(dim=1) for out in outputs]
        for k, (network, optimizer) in enumerate(zip(networks, optimizers, strict=True)):
            loss = functional.cross_entropy(outputs[k].logits, y, label_smoothing=0.1)
            head = outputs[k].auxiliary
            if head is not None:
                loss = loss + 0.4 * functional.cross_entropy(head, y, label_smoothing=0.1)
            for j in {0, 1, 2} - {k}:
                fixed = p[j].detach()
                loss = loss + weight / 2 * (fixed * (fixed / p[k]).log()).sum() / len(x)
            optimizer.param_groups[0]["lr"] = 0.2 if step < 2 else 0.1  # the cosine of two epochs
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()
        for mine, theirs in zip(group.trainees, networks, strict=True):
            for one, other in zip(mine.network.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_a_step_is_that_of_the_group_with_its_switch() -> None:
    """The same baseline as a setting of `SmallGroup`, which minimizes cross-entropy with the sum of the peers."""
    generator = stream("classifiers")
    x, y = torch.randn(6, 5, generator=generator, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    weights = [{"w": torch.randn(5, 3, generator=generator, dtype=torch.float64)} for _ in range(3)]

    def apply(own: Any, architecture: Any, inputs: Tensor) -> Tensor:  # noqa: ARG001
        weight: Tensor = own["w"]
        return torch.tanh(inputs) @ weight

    learners = [Learner(apply, {}, None, {"w": own["w"].clone()}) for own in weights]
    group = SmallGroup(learners, labels_from="w", lam=0.6 / 2, w_lr=0.1, hypergradient="first-order")
    group.step((x, y), x, None)
    leaves = [own["w"].requires_grad_() for own in weights]
    logits = [torch.tanh(x) @ leaf for leaf in leaves]
    for leaf, learner, table, apart in zip(leaves, learners, logits, divergences(logits), strict=True):
        (gradient,) = torch.autograd.grad(functional.cross_entropy(table, y) + 0.6 * apart, leaf)
        torch.testing.assert_close(learner.w["w"], leaf.detach() - 0.1 * gradient, rtol=1e-12, atol=1e-12)


def test_learners_of_one_cell_differ_from_the_beginning_and_see_the_same_batches() -> None:
    group = job(DARTS, DARTS, DARTS)
    weights = [next(iter(trainee.network.parameters())) for trainee in group.trainees]
    assert not any(torch.equal(weights[k], weights[j]) for k in range(3) for j in range(k))
    for trainee in group.trainees[1:]:  # with equal weights only drop path is left
        trainee.network.load_state_dict(group.trainees[0].network.state_dict())
    x, y = group.batches.batch(0)
    for epoch in (0, 1):
        answers = []
        for trainee in group.trainees:
            trainee.begin(epoch)
            answers.append(trainee.answer(x, y, step=0, part=0).logits)
        assert [torch.equal(answers[0], answer) for answer in answers[1:]] == [epoch == 0] * 2


@pytest.mark.parametrize("changes", [{}, {"accumulate": 3, "precision": "bfloat16"}, {"precision": "float16"}])
def test_without_weight_the_first_learner_is_a_training_alone(changes: dict[str, Any]) -> None:
    training, group = alone(DARTS, seed=3, **changes), job(DARTS, OTHER, weight=0.0, seed=3, **changes)
    rows, alone_rows = finish(group), finish(training)
    assert same(training.state()[0], states(group)[0])
    ours = [{k: v for k, v in row.items() if k not in ("learner", "divergence")} for row in rows if not row["learner"]]
    assert ours == alone_rows
    assert all(row["divergence"] > 0 for row in rows)  # measured, but not followed


def test_without_weight_peers_change_no_bit_and_with_it_they_do() -> None:
    found = {}
    for weight in (0.0, 1.0):
        for peers in ((CELL,), (DARTS,), (DARTS, OTHER)):
            group = job(peers[0], DARTS, *peers[1:], weight=weight)
            finish(group)
            found[weight, peers] = states(group)[1]
    for weight in (0.0, 1.0):
        first, *others = (state for (used, _), state in found.items() if used == weight)
        assert [same(first, other) for other in others] == [weight == 0] * 2


def test_the_order_of_the_learners_changes_no_bit() -> None:
    """Whoever comes first: all follow the answers of the same step. Sums of two peers are the same in any order."""
    straight, turned = job(DARTS, CELL, OTHER), job(DARTS, CELL, OTHER)
    turned.trainees.reverse()
    for group in (straight, turned):
        finish(group)
    for one, other in zip(states(straight), reversed(states(turned)), strict=True):
        assert same(one, other)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_finite_in_one_learner_stops_all_before_the_update(what: str) -> None:
    group = job(DARTS, CELL)
    group.advance()
    classifier: Any = group.trainees[1].network.classifier
    if what == "loss":
        classifier.bias.data[0] = float("inf")
    else:
        classifier.weight.register_hook(lambda gradient: gradient * float("nan"))
    before = states(group)
    with pytest.raises(NonFiniteTrainingError, match=f"the {what} of learner 1 is not finite in step 1; nothing was"):
        group.advance()
    assert all(same(one, other) for one, other in zip(before, states(group), strict=True))
    assert group.step == 1


@pytest.mark.parametrize(
    ("genotypes", "learners", "weight", "sentence"),
    [
        ((DARTS,), None, 1.0, "2 to 64 networks can learn together, but got 1"),
        ((), None, 1.0, "2 to 64 networks can learn together, but got 0"),
        ((DARTS,), 1, 1.0, "2 <= learners <= 64 must hold, but got learners=1"),
        ((DARTS,), 65, 1.0, "2 <= learners <= 64 must hold, but got learners=65"),
        ((DARTS, DARTS), 3, 1.0, "the number of learners can be set for one cell only, but got 3 and 2 cells"),
        ((DARTS,), 2, -0.1, "0 <= weight < infinity must hold, but got weight=-0.1"),
        ((DARTS,), 2, math.nan, "0 <= weight < infinity must hold, but got weight=nan"),
        ((DARTS,), 2, math.inf, "0 <= weight < infinity must hold, but got weight=inf"),
    ],
)
def test_bad_groups_are_refused(genotypes: Any, learners: int | None, weight: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Peers.of(genotypes, learners, weight)
