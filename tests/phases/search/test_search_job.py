"""A search as a job, on digits: schedules, warm-up, metrics, and resumption at zero tolerance."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.data.splits import mixed
from smallgroup.group import Classification
from smallgroup.methods import METHODS
from smallgroup.phases.evaluate import evaluate
from smallgroup.phases.search import SearchJob
from smallgroup.runner import read_rows
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from tests.configs import search_config
from tests.runner.jobs import interrupted, runner

SPACE = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(10, 1, 8))
FAST = {"epochs": 2, "steps_per_epoch": 4, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}}


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(), seed=0)


def job(
    data: SearchData, methods: Sequence[str] = ("darts", "darts"), numbers: Sequence[int] | None = None, **options: Any
) -> SearchJob:
    config = search_config(**{"hypergradient": "first-order", **FAST, **options})
    made = SearchJob(config, data, [(SPACE, METHODS[name]()) for name in methods], seed=3, numbers=numbers)
    made.metrics.indices = made.metrics.indices[:50]
    return made


def everything(search: SearchJob) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in search.state()[0].items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({}, 1),
        ({}, 4),
        ({"hypergradient": "finite-difference"}, 6),
        ({"methods": ("gdas", "fair-darts")}, 3),
        ({"order": "a-v-w", "v_warmup": 0.25}, 5),
        ({"order": "a-v-w", "hypergradient": "finite-difference", "clip_lookahead": False, "lam": 0}, 5),
        ({"architecture_warmup": 0.5}, 2),
        ({"lambda_ramp": 0.5, "label_temperature": 0.5, "label_confidence": 0.11}, 3),
    ],
)
def test_a_search_that_was_interrupted_ends_with_the_same_bits(
    tmp_path: Path, data: SearchData, options: dict[str, Any], step: int
) -> None:
    whole = job(data, **options)
    runner(tmp_path / "whole").run(whole)
    interrupted(job(data, **options), tmp_path / "part", step)
    again = job(data, **options)
    runner(tmp_path / "part").run(again, resume=True)
    assert same(everything(whole), everything(again))
    rows = [list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part")]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4


@pytest.mark.parametrize("forgotten", ["v.stem.0.weight/momentum_buffer", "a.alpha_cell/exp_avg", "w.stem.0.weight"])
def test_what_is_forgotten_is_noticed(data: SearchData, forgotten: str) -> None:
    """The negative control: a state that lacks a moment or a weight leads elsewhere."""
    search, again = job(data), job(data)
    for _ in range(3):
        search.advance()
    tensors, record = search.state()
    tensors[f"0.{forgotten}"] = torch.zeros_like(tensors[f"0.{forgotten}"])
    again.load_state({name: tensor.clone() for name, tensor in tensors.items()}, record)
    for each in (search, again):
        each.advance()
    assert not same(everything(search), everything(again))


def test_a_checkpoint_of_another_supernet_is_refused(data: SearchData) -> None:
    """Once, the reductions of NAS-Bench-201 had biases instead of scales and shifts."""
    tensors, record = job(data).state()
    older = {name: tensor for name, tensor in tensors.items() if ".body.0.2." not in name}
    older["0.w.blocks.1.body.0.1.bias"] = torch.zeros(4)
    message = "the nas-bench-201 supernet, but v.blocks.1.body.0.2.weight is missing: it was written by a version with"
    with pytest.raises(ValueError, match=message):
        job(data).load_state(older, record)


@pytest.mark.parametrize("mode", ["first-order", "finite-difference"])
def test_learners_that_are_not_taught_are_as_if_alone(data: SearchData, mode: str) -> None:
    together = job(data, ("darts", "gdas"), hypergradient=mode, lam=0)
    while not together.finished:
        together.advance()
    for number, method in enumerate(("darts", "gdas")):
        alone = job(data, (method,), numbers=[number], hypergradient=mode)
        while not alone.finished:
            alone.advance()
        own = f"{number}."
        mine = {n.removeprefix(own): t for n, t in everything(together).items() if n.startswith(own)}
        assert same(mine, {n.removeprefix("0."): t for n, t in everything(alone).items()})


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    """Which of v, w and a differ, over all learners."""
    return {
        name.split(".")[1] for name, t in after.items() if "/" not in name and not torch.equal(before.get(name, t), t)
    }


def test_warm_up_trains_labelers_first_and_architectures_last(data: SearchData) -> None:
    search = job(data, v_warmup=0.25, architecture_warmup=0.5)
    found = []
    while not search.finished:
        before = everything(search)
        search.advance()
        found.append(moved(before, everything(search)) - {"relaxed"})
    assert found == [{"v"}] * 2 + [{"v", "w"}] * 2 + [{"v", "w", "a"}] * 4


def test_the_rate_follows_a_cosine_from_epoch_to_epoch(data: SearchData) -> None:
    search = job(data, epochs=4, steps_per_epoch=1, weights={"lr": 0.1, "min_lr": 0.02})
    rates = []
    while not search.finished:
        search.advance()
        optimizer = search.searchers[1].optimizers.w
        assert optimizer is not None
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx(
        [0.1, 0.02 + 0.08 * (1 + math.sqrt(0.5)) / 2, 0.06, 0.02 + 0.08 * (1 - math.sqrt(0.5)) / 2]
    )


def test_an_epoch_leaves_a_row_per_learner(data: SearchData) -> None:
    search = job(data, hypergradient="finite-difference")
    rows: Any = None
    while rows is None:
        rows = search.advance()
    assert [row["learner"] for row in rows] == [0, 1]
    row = rows[1]
    for name in ("v_loss", "w_loss", "w_unlabeled_loss", "validation_loss", "w_validation_loss"):
        assert 0 < row[name] < 10, name
    for name in ("v_error", "w_error", "derived_error"):
        assert 0 <= row[name] <= 100
    assert 0 < row["label_entropy"] <= math.log(10) + 1e-6
    assert 0 <= row["agreement"] <= 1
    assert row["agreement"] == rows[0]["agreement"]
    for term in ("own", "cross", "label"):
        assert row[f"norm_{term}"] > 0
        assert -1 <= row[f"cosine_{term}"] <= 1
    assert len(row["v_recognised"]) == 10
    assert len(row["edge_entropy"]["cell"]) == 6
    assert all(0.9 < value <= 1.000001 for value in row["edge_entropy"]["cell"])
    assert row["genotype"].startswith("|")
    assert row["skips"] == row["genotype"].count("skip_connect")


def test_evaluation_is_the_mean_over_all_images(data: SearchData) -> None:
    """Of a learner that knows the classes in advance, but for those it takes for the next one."""
    indices = data.splits.validation[:103]
    labels = data.dataset.labels()[mixed(indices)]
    position = [0]

    def logits(x: torch.Tensor) -> torch.Tensor:
        y = labels[position[0] : position[0] + len(x)]
        position[0] += len(x)
        said = torch.where(y < 5, y, (y + 1) % 10)
        return 5.0 * torch.nn.functional.one_hot(said, 10).float()

    one = evaluate(logits, data.dataset.train, data.dataset, indices)
    assert one.error == pytest.approx(100 * float((labels >= 5).float().mean()))
    right, wrong = -math.log(math.exp(5) / (math.exp(5) + 9)), -math.log(1 / (math.exp(5) + 9))
    share = float((labels >= 5).float().mean())
    assert one.loss == pytest.approx((1 - share) * right + share * wrong, rel=1e-5)
    assert one.recognized == [100.0] * 5 + [0.0] * 5


@pytest.mark.parametrize("clip", [True, False])
def test_second_order_before_the_step_of_w_is_that_of_the_group(data: SearchData, clip: bool) -> None:
    """A looks ahead on the batch of its step, clipped or not, and W follows on the same batch at the new A."""
    given: dict[str, Any] = {"order": "a-v-w", "hypergradient": "finite-difference"}
    given |= {"weights": {"clip": 0.01, "nesterov": True}}
    search, by_hand = (job(data, ("darts",), clip_lookahead=clip, **given) for _ in range(2))
    for step in range(2):
        search.advance()
        group, (searcher,) = by_hand.group, by_hand.searchers
        searcher.prepare(step)
        train, validation = by_hand.train.batch(step), by_hand.validation.batch(step)
        group.step_architectures(validation, look_ahead=train, clip_look_ahead=clip)
        group.step(train, None, None)
    assert same(everything(search), everything(by_hand))
    optimizer = search.searchers[0].optimizers.w
    assert optimizer is not None
    assert optimizer.param_groups[0]["nesterov"]


def test_architectures_go_back_if_the_weights_cannot_follow(data: SearchData) -> None:
    search = job(data, order="a-v-w")
    search.advance()

    def moved() -> dict[str, torch.Tensor]:
        return {name: t.clone() for name, t in everything(search).items() if ".relaxed." not in name}

    before, learner = moved(), search.group.learners[1]
    original = learner.apply

    def fails(weights: Any, architecture: Any, inputs: torch.Tensor, *, phase: Any = None) -> torch.Tensor:
        if phase == "w":
            raise FloatingPointError
        result: torch.Tensor = original(weights, architecture, inputs, phase=phase)
        return result

    learner.apply = fails
    with pytest.raises(FloatingPointError):
        search.advance()
    assert same(before, moved())
    learner.apply = original
    search.advance()
    assert not same(before, moved())


def test_lambda_and_labels_are_those_of_the_config(data: SearchData) -> None:
    made = job(data, lam=0.8, lambda_ramp=0.5, label_temperature=0.5, label_confidence=0.4)
    seen = []
    while not made.finished:
        made.advance()
        seen.append(made.group.lam)
    assert seen == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8])
    task = made.group.setting.task
    assert isinstance(task, Classification)
    assert (task.temperature, task.confidence) == (0.5, 0.4)


def test_a_ramp_without_lambda_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"without human_labels there is no lambda, so lambda_ramp must be 0, but it is 0\.5"
    ):
        search_config(human_labels=False, lambda_ramp=0.5)
