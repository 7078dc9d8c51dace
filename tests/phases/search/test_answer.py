"""How the group answers: by hand, whatever the order of learners, resumed or not, and refused where it cannot be."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.config import resolve
from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.methods import METHODS, Method
from smallgroup.phases.evaluate import evaluate
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.answer import Answer, Finalist, check_answer, give_answer, retained_record
from smallgroup.phases.search.config import AnswerRule
from smallgroup.phases.search.learners import Searcher
from smallgroup.phases.search.result import SearchResult, conclude
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Space
from smallgroup.spaces.choices import mean_scores
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import read, to_plain
from smallgroup.spaces.ground_truth import GroundTruths
from smallgroup.spaces.nas_bench_201 import Cell, NasBench201Space, Truth
from smallgroup.spaces.nas_bench_201.cell import every_cell
from tests.configs import search_config
from tests.runner.jobs import interrupted, runner

SPACE = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(10, 1, 8))
FAST = {"epochs": 2, "steps_per_epoch": 3, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}}
RULES: list[AnswerRule] = ["retained", "derived-error", "consensus"]


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(labeled_fraction=0.2), seed=0)


def job(data: SearchData, methods: Sequence[str] = ("darts", "darts"), **options: Any) -> SearchJob:
    config = search_config(**{"hypergradient": "first-order", **FAST, **options})
    made = SearchJob(config, data, [(SPACE, METHODS[name]()) for name in methods], seed=3)
    made.metrics.indices = made.metrics.indices[:50]
    return made


def finalists(search: SearchJob, losses: Sequence[float], errors: Sequence[float | None]) -> list[Finalist]:
    derived = [one.relaxed.derive(one.learner.architecture) for one in search.searchers]
    return [Finalist(*given) for given in zip(search.searchers, derived, losses, errors, strict=True)]


def hold(search: SearchJob, k: int, **tables: Tensor) -> None:
    """Give a learner the architecture whose softmax these shares are."""
    for kind, shares in tables.items():
        search.searchers[k].learner.architecture[f"alpha_{kind}"].data.copy_(shares.log())


def operations(genotype: Genotype) -> set[str]:
    assert isinstance(genotype, Cell)
    return set(genotype.operations)


def consensus(search: SearchJob) -> Answer:
    count = len(search.searchers)
    return give_answer("consensus", finalists(search, [1.0] * count, [None] * count))


# Operations in the order none, skip, 1x1, 3x3, average pooling.
LEFT = torch.tensor([[0.04, 0.40, 0.06, 0.45, 0.05]]).repeat(6, 1)
RIGHT = torch.tensor([[0.04, 0.40, 0.45, 0.06, 0.05]]).repeat(6, 1)
SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"


def test_the_consensus_by_hand(data: SearchData) -> None:
    """0.45 and 0.06 make 0.255 for each convolution, and skip connections have 0.40: nobody's own first choice."""
    search = job(data)
    hold(search, 0, cell=LEFT)
    hold(search, 1, cell=RIGHT)
    answer = consensus(search)
    assert str(answer.genotype) == SKIPS
    assert answer.record.rule == "consensus"
    assert answer.record.learner is None
    assert answer.record.sentence == "consensus: the cell is derived from the mean of the scores of 2 learners"
    own = finalists(search, [2.0, 1.0], [None, None])
    assert [operations(one.genotype) for one in own] == [{"nor_conv_3x3"}, {"nor_conv_1x1"}]
    assert give_answer("retained", own).genotype == own[1].genotype


def test_shares_are_averaged_and_not_logits(data: SearchData) -> None:
    """In a mean of logits a learner that is nearly sure against an operation would forbid it."""
    search = job(data)
    sure = torch.tensor([[0.001, 0.3, 1e-6, 0.698999, 0.0]]).repeat(6, 1).clamp(min=1e-9)
    other = torch.tensor([[0.001, 0.3, 0.698999, 1e-6, 0.0]]).repeat(6, 1).clamp(min=1e-9)
    hold(search, 0, cell=sure)
    hold(search, 1, cell=other)
    assert "skip_connect" not in operations(consensus(search).genotype)
    assert (sure.log() + other.log()).argmax(dim=1).tolist() == [1] * 6


def test_learners_that_are_alike_have_their_own_cell_as_consensus(data: SearchData) -> None:
    search = job(data, ("darts",) * 3)
    shares = torch.rand(6, 5, generator=stream("alike")).softmax(dim=1)
    for k in range(3):
        hold(search, k, cell=shares)
    answer, own = consensus(search), search.searchers[0]
    assert answer.genotype == own.relaxed.derive(own.learner.architecture)
    assert answer.record.sentence.endswith("; learner 0 and 1 and 2 alone would give the same cell")


@pytest.mark.parametrize("rule", RULES)
def test_one_learner_answers_with_its_cell(data: SearchData, rule: AnswerRule) -> None:
    (own,) = finalists(job(data, ("gdas",)), [1.0], [50.0])
    assert give_answer(rule, [own]).genotype == own.genotype


@pytest.mark.parametrize("space", [NasBench201Space(), DartsSpace()])
def test_the_order_of_the_learners_does_not_matter(space: Space) -> None:
    """To the last bit: of scores that tie, rounding would decide."""
    tables = [
        {
            name: (60 * torch.rand(kind.shape, generator=stream(k, name))).softmax(dim=1)  # far apart: sums are rounded
            for name, kind in space.kinds.items()
        }
        for k in range(4)
    ]
    first = mean_scores(tables)
    for order in itertools.permutations(tables):
        again = mean_scores(order)
        assert all(torch.equal(first[name], again[name]) for name in first)
    for name in first:  # the mean, and not something else that has no order
        assert torch.allclose(first[name], torch.stack([one[name] for one in tables]).double().mean(dim=0), rtol=1e-12)


def test_the_mean_of_equal_scores_is_exact() -> None:
    table = torch.rand(14, 8, generator=stream("exact")).softmax(dim=1)
    for count in (1, 2, 3, 5, 7):
        assert torch.equal(mean_scores([{"normal": table}] * count)["normal"], table.double())


def test_what_one_learner_has_removed_counts_as_nothing_with_it() -> None:
    """What all have removed stays removed; disjoint choices leave every edge an operation."""
    gone = -math.inf
    found = mean_scores([{"cell": torch.tensor([[0.6, 0.4, gone]])}, {"cell": torch.tensor([[gone, 1.0, gone]])}])
    assert found["cell"].tolist() == [[pytest.approx(0.3), pytest.approx(0.7), gone]]


def test_the_consensus_is_derived_by_the_rule_of_the_method() -> None:
    """FairDARTS keeps what reaches 0.85 in the mean; P-DARTS allows two skip connections in it."""
    fair = METHODS["fair-darts"]()
    fair.start(SPACE)
    high, low = torch.full((6, 5), 0.2), torch.full((6, 5), 0.2)
    high[:, 3], low[:, 3] = 0.95, 0.8
    low[0, 3] = 0.7  # 0.825 in the mean: below the threshold, unlike the others' 0.875
    cell = fair.derive_from(SPACE, mean_scores([{"cell": high}, {"cell": low}]))
    assert cell == Cell(("none", *["nor_conv_3x3"] * 5)).pruned()
    progressive, darts = METHODS["p-darts"](), DartsSpace()
    progressive.start(darts)
    skip = darts.kinds["normal"].operations.index("skip_connect")
    shares = {name: torch.rand(kind.shape, generator=stream(name)) / 2 for name, kind in darts.kinds.items()}
    shares["normal"][:, skip] = 0.9
    mean = mean_scores([shares, shares])
    before = {name: table.clone() for name, table in mean.items()}
    assert darts.derive(mean, progressive.rule).normal.skips == 8
    assert progressive.derive_from(darts, mean).normal.skips == 2
    assert all(torch.equal(mean[name], before[name]) for name in mean)


def test_the_derived_error_decides_where_the_loss_says_otherwise(data: SearchData, tmp_path: Path) -> None:
    """Learner 0 says nothing; learner 1 is often right but sure of everything, so that its loss is the higher one."""
    search = job(data, epochs=6, steps_per_epoch=15, lam=0, answer="derived-error", weights={"lr": 0.1})
    while not search.finished:
        search.advance()
    silent, sure = (one.learner.w for one in search.searchers)
    silent["classifier.weight"].data.mul_(1e-3)
    silent["stem.0.weight"].data.copy_(torch.randn(silent["stem.0.weight"].shape, generator=stream("silent")))
    sure["classifier.weight"].data.mul_(300)
    result = conclude(search, seed=0, seconds=0.0, folder=tmp_path)
    losses = [one.validation_loss for one in result.group]
    errors = [one.derived_error or 0.0 for one in result.group]
    assert losses[0] < losses[1]
    assert errors[1] < errors[0]
    assert (result.retained, result.answer.learner, result.answer.rule) == (0, 1, "derived-error")
    assert result.genotype == result.group[1].genotype
    assert to_plain(read(tmp_path / "genotype.json")[0]) == result.genotype
    assert f"lowest error on all validation images with the shared weights, {errors[1]:.2f} %" in result.answer.sentence
    # Of the derived cell, with W, on every validation image.
    for k, one in enumerate(search.searchers):
        alone = {"alpha_cell": torch.where(SPACE.chosen(derived(one))["cell"] > 0, 200.0, -200.0)}

        def logits(x: Tensor, k: int = k, alone: Mapping[str, Tensor] = alone) -> Tensor:
            own = search.searchers[k]
            return own.relaxed(own.learner.w, alone, x)

        images = data.splits.validation
        assert errors[k] == pytest.approx(evaluate(logits, data.dataset.train, data.dataset, images).error, abs=0.2)
    assert SearchResult.read(tmp_path) == result


def derived(one: Searcher) -> Cell:
    genotype: Cell = one.relaxed.derive(one.learner.architecture)
    return genotype


def test_of_equal_derived_errors_the_lower_loss_decides(data: SearchData) -> None:
    search = job(data, ("darts",) * 3)
    for losses, learner in (([1.0, 0.9, 0.1], 1), ([0.9, 0.9, 0.1], 0)):
        answer = give_answer("derived-error", finalists(search, losses, [40.0, 40.0, 41.0]))
        assert answer.record.learner == learner
    assert give_answer("retained", finalists(search, [1.0, 0.5, 0.5], [None] * 3)).record == retained_record(1)


@pytest.mark.parametrize("rule", RULES)
def test_a_resumed_search_gives_the_same_answer(tmp_path: Path, data: SearchData, rule: AnswerRule) -> None:
    whole = job(data, answer=rule, architecture={"lr": 0.3})
    runner(tmp_path / "whole").run(whole)
    interrupted(job(data, answer=rule, architecture={"lr": 0.3}), tmp_path / "part", 4)
    again = job(data, answer=rule, architecture={"lr": 0.3})
    runner(tmp_path / "part").run(again, resume=True)
    results = [
        conclude(made, seed=0, seconds=0.0, folder=tmp_path / name)
        for made, name in ((whole, "whole"), (again, "part"))
    ]
    first, second = (replace(result, peak_memory_mb=0.0) for result in results)
    assert first == second
    assert first.answer.rule == rule
    for name in ("genotype.json", "architectures.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes()
    assert SearchResult.read(tmp_path / "whole") == results[0]


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_looks_at_true_accuracies_or_test_images(tmp_path: Path, data: SearchData, rule: AnswerRule) -> None:
    """Tables that say the opposite of one another, and test images that cannot be read, change nothing but the numbers
    that are looked up afterwards."""
    cells = list(every_cell())
    tables = [{"cifar10": {cell: float(sign * i) for i, cell in enumerate(cells)}} for sign in (1, -1)]
    blind = replace(data, dataset=replace(data.dataset, test=None))
    found = []
    for n, truth in enumerate((None, *map(Truth, tables))):
        search = job(blind, answer=rule)
        search.metrics.truth = None if truth is None else GroundTruths((truth,))
        while not search.finished:
            search.advance()
        (tmp_path / f"{n}").mkdir()
        result = conclude(search, seed=0, seconds=0.0, folder=tmp_path / f"{n}")
        found.append((result.genotype, result.answer))
        if truth is not None:
            cell = Cell.parse(result.genotype)
            assert result.true_accuracy == {"cifar10": truth.columns["cifar10"][cell]}
            assert result.percentile == {"cifar10": truth.standing(cell, "cifar10").percentile}
    assert found[0] == found[1] == found[2]


REFUSED = {
    "spaces": (
        [{"space": {"name": "darts"}}, {"space": {"name": "nas-bench-201"}}],
        r"must search one space and derive alike, but they have darts and nas-bench-201 \(derive: without-none\); use",
    ),
    "habits": (
        [{"space": {"derive": "benchmark"}}, {}],
        r"have nas-bench-201 \(derive: benchmark\) and nas-bench-201 \(derive: without-none\); use retained, derived-",
    ),
    "rules": (
        [{"method": "darts"}, {"method": "gdas"}],
        "derive cells in the same way, but darts and gdas do not; use",
    ),
    "scores": ([{"method": "darts"}, {"method": "pc-darts"}], "score operations and .* but darts and pc-darts do not"),
    "limits": (
        [{"method": "p-darts", "space": {"name": "darts"}, "options": {"skips": n}} for n in (2, 3)],
        "but p-darts with at most 2 skips and p-darts with at most 3 skips do not",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_consensus_of_unlike_learners_is_refused_before_the_search(name: str) -> None:
    learners, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        resolve({"learners": learners, "search": {"answer": "consensus"}})
    for rule in ("retained", "derived-error"):
        assert resolve({"learners": learners, "search": {"answer": rule}}).search.answer == rule


@pytest.mark.parametrize(
    "learners",
    [
        [{"method": "darts"}, {"method": "darts-minus"}],
        [{"space": {"channels": 4}}, {"space": {"channels": 8, "cells_per_stage": 2}}],
        [{"method": "gdas", "options": {"first_temperature": 5.0}}, {"method": "gdas"}],
        [{"method": "fair-darts"}],
    ],
)
def test_learners_that_score_and_derive_alike_have_a_consensus(learners: list[dict[str, Any]]) -> None:
    assert resolve({"learners": learners, "search": {"answer": "consensus"}}).search.answer == "consensus"


def test_learners_that_are_given_in_python_are_checked_too(data: SearchData) -> None:
    with pytest.raises(ValueError, match="but darts and gdas do not"):
        job(data, ("darts", "gdas"), answer="consensus")

    class Own(Method):
        name = "own"

        def derive(self, space: Space, architecture: Mapping[str, Tensor]) -> Any:
            return space.derive({kind: -table for kind, table in self.scores(architecture).items()}, self.rule)

    with pytest.raises(ValueError, match="own derives it from more than scores"):
        check_answer("consensus", [(SPACE, Own()), (SPACE, Own())])
    check_answer("consensus", [(SPACE, Own())])  # alone it answers with its own cell


def test_a_rule_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"search\.answer: Input should be .*'play-off', but got 'vote'"):
        resolve({"search": {"answer": "vote"}})


def test_published_recipes_retain_a_learner() -> None:
    for recipe in ("paper", "released-code"):
        assert resolve({"recipe": recipe}).search.answer == "retained"


@pytest.fixture
def finished(tmp_path: Path, data: SearchData) -> Path:
    search = job(data, answer="consensus")
    hold(search, 0, cell=LEFT)
    hold(search, 1, cell=RIGHT)
    conclude(search, seed=0, seconds=0.0, folder=tmp_path)
    return tmp_path


def test_a_result_says_how_the_group_answered(finished: Path) -> None:
    plain = json.loads((finished / "result.json").read_text())
    assert plain["genotype"] == SKIPS
    assert plain["answer"].keys() == {"rule", "learner", "sentence"}
    assert (plain["answer"]["rule"], plain["answer"]["learner"]) == ("consensus", None)
    assert all(one["genotype"] != SKIPS for one in plain["group"])
    losses = [one["validation_loss"] for one in plain["group"]]
    assert plain["retained"] == losses.index(min(losses))
    assert plain["validation_loss"] == min(losses)
    result = SearchResult.read(finished)
    assert result is not None
    assert (result.genotype, result.answer_space) == (SKIPS, "nas-bench-201")


def test_results_without_an_answer_are_those_of_the_retained_learner(finished: Path) -> None:
    plain = json.loads((finished / "result.json").read_text())
    del plain["answer"]
    (finished / "result.json").write_text(json.dumps(plain))
    assert SearchResult.read(finished) is None  # its cell is no learner's
    plain["genotype"] = plain["group"][plain["retained"]]["genotype"]
    (finished / "result.json").write_text(json.dumps(plain))
    result = SearchResult.read(finished)
    assert result is not None
    assert result.answer == retained_record(plain["retained"])


@pytest.mark.parametrize(
    "change",
    [
        {"answer": None},
        {"answer": {"rule": "vote", "learner": None, "sentence": ""}},
        {"answer": {"rule": "retained", "learner": None, "sentence": ""}},
        {"answer": {"rule": "derived-error", "learner": 1, "sentence": ""}},
        {"answer": {"rule": "consensus", "learner": 7, "sentence": ""}},
        {"genotype": SKIPS.replace("skip_connect~0|+", "none~0|+", 1)},
        {"genotype": "|none~0|"},
        {"retained": 7},
    ],
)
def test_a_result_that_contradicts_itself_is_not_read(finished: Path, change: dict[str, Any]) -> None:
    assert SearchResult.read(finished) is not None
    plain = json.loads((finished / "result.json").read_text())
    (finished / "result.json").write_text(json.dumps({**plain, **change}))
    assert SearchResult.read(finished) is None
