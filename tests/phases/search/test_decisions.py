"""What methods decide at the end of an epoch, and what the search makes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.methods import Continue, Darts, Decision, EpochEnd, Method, Progress, Rebuild, Rollback, Stop
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.config import BatchSizes
from smallgroup.runner import read_rows
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from tests.configs import search_config
from tests.runner.jobs import interrupted, runner

SPACE = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(10, 1, 8))
SIZES = BatchSizes(train=8, unlabeled=8, validation=8)


@dataclass
class Decides(Method):
    """DARTS that does what a test says when an epoch is over."""

    name: ClassVar[str] = "decides"
    what: Callable[[EpochEnd], Decision] = lambda _: Continue()

    def end_epoch(self, epoch: EpochEnd) -> Decision:
        return self.what(epoch)


@dataclass
class EverySecond(Method):
    """DARTS whose architecture moves in every second step."""

    name: ClassVar[str] = "every-second"

    def trains_architecture(self, progress: Progress) -> bool:
        return progress.step % 2 == 1


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(labelled_fraction=0.05), seed=0)


def job(data: SearchData, *methods: Method, epochs: int = 4, **options: Any) -> SearchJob:
    config = search_config(
        epochs=epochs, steps_per_epoch=1, batch_size=SIZES, **{"hypergradient": "first-order", **options}
    )
    return SearchJob(config, data, [(SPACE, method) for method in methods], seed=1)


def alphas(search: SearchJob) -> list[torch.Tensor]:
    return [searcher.learner.architecture["alpha_cell"].clone() for searcher in search.searchers]


def stop_after(epoch: int, back_to: int | None = None) -> Callable[[EpochEnd], Decision]:
    return lambda end: Stop("enough", back_to) if end.progress.epoch == epoch else Continue()


def test_a_search_ends_when_every_method_has_ended_its_own(data: SearchData) -> None:
    search = job(data, Decides(stop_after(1)), Decides(stop_after(2)))
    rows: list[Any] = []
    while not search.finished:
        rows += search.advance() or []
    assert search.step == 3
    assert [row.get("ended") for row in rows] == [None, None, "enough", None, None, "enough"]


@pytest.mark.parametrize("order", ["v-w-a", "a-v-w"])
def test_who_has_ended_keeps_its_architecture_and_goes_on_to_learn(data: SearchData, order: str) -> None:
    search = job(data, Decides(stop_after(1)), Darts(), order=order)
    search.advance()
    search.advance()
    before, weights = alphas(search), search.searchers[0].learner.w["stem.0.weight"].clone()
    search.advance()
    after = alphas(search)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    assert not torch.equal(weights, search.searchers[0].learner.w["stem.0.weight"])


def test_a_method_may_end_with_the_architecture_of_an_earlier_epoch(data: SearchData) -> None:
    search = job(data, Decides(stop_after(2, back_to=0)))
    search.advance()
    early = alphas(search)[0]
    search.advance()
    assert not torch.equal(early, alphas(search)[0])
    search.advance()
    assert search.finished
    assert torch.equal(early, alphas(search)[0])


def test_decisions_survive_a_resumption(tmp_path: Path, data: SearchData) -> None:
    def made() -> SearchJob:
        return job(data, Decides(stop_after(2, back_to=0)), Darts(), epochs=6)

    whole = made()
    runner(tmp_path / "whole").run(whole)
    interrupted(made(), tmp_path / "part", 4)
    again = made()
    runner(tmp_path / "part").run(again, resume=True)
    assert again.searchers[0].ended == whole.searchers[0].ended == "enough"
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, again.state()[0][name]), name
    left, right = (list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part"))
    assert left == right


def test_an_epoch_that_could_not_be_summed_up_is_so_later(tmp_path: Path, data: SearchData) -> None:
    """Killed between its last step and its metrics, as it were: then they are made when the search is resumed."""
    whole, part, again = (job(data, Decides(), Darts(), epochs=2) for _ in range(3))
    runner(tmp_path / "whole").run(whole)

    def rows(epoch: int) -> Any:  # noqa: ARG001
        raise FloatingPointError

    part.metrics.rows = rows  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError):
        runner(tmp_path / "part").run(part)
    assert part.step == 1
    seen: list[EpochEnd] = []
    method: Any = again.searchers[0].relaxed.method

    def look(end: EpochEnd) -> Decision:
        seen.append(end)
        return Continue()

    method.what = look
    runner(tmp_path / "part").run(again, resume=True)
    left, right = (list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part"))
    assert left == right
    assert [(end.progress.epoch, end.progress.step) for end in seen] == [(0, 0), (1, 1)]


def test_methods_see_the_epoch(data: SearchData) -> None:
    seen: list[EpochEnd] = []

    def look(end: EpochEnd) -> Decision:
        seen.append(end)
        return Continue()

    search = job(data, Decides(look))
    search.advance()
    search.advance()
    end = seen[1]
    assert (end.progress.epoch, end.progress.epochs) == (1, 4)
    assert torch.equal(end.architecture["alpha_cell"], alphas(search)[0])
    assert end.genotype == search.searchers[0].relaxed.derive(end.architecture)
    assert 0 <= end.statistics["w_error"] <= 100
    assert end.validation_loss is not None
    alpha = end.architecture["alpha_cell"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(end.validation_loss({"alpha_cell": alpha}), alpha)
    assert float(gradient.norm()) > 0


def test_pruned_operations_stay_away(data: SearchData) -> None:
    search = job(data, Decides())
    method: Any = search.searchers[0].relaxed.method

    def prune(end: EpochEnd) -> Decision:
        mask = method.mask("cell").clone()
        mask[:, 4] = end.progress.epoch < 1
        method.keep("cell", mask)
        return Continue()

    method.what = prune
    while not search.finished:
        search.advance()
    assert "avg_pool_3x3" not in search.searchers[0].relaxed.derive(search.searchers[0].learner.architecture).operations


def test_a_method_that_fails_has_decided_nothing(data: SearchData) -> None:
    """The step was taken, and what the epoch leaves behind is made up for when the search goes on."""
    search = job(data, Decides(), Decides())
    first, second = (searcher.relaxed.method for searcher in search.searchers)

    def prune(_: EpochEnd) -> Decision:
        mask = first.mask("cell").clone()
        mask[:, 0] = False
        first.keep("cell", mask)
        return Continue()

    def fail(_: EpochEnd) -> Decision:
        raise ZeroDivisionError

    first.what, second.what = prune, fail  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        search.advance()
    assert search.step == 1
    assert bool(first.mask("cell").all())
    second.what = lambda _: Continue()  # type: ignore[attr-defined]
    rows = search.advance()
    assert rows is not None
    assert [row["epoch"] for row in rows] == [0, 0]
    assert search.step == 1
    assert not bool(first.mask("cell").any(dim=0)[0])


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Stop("too far", 7), "can go back to epochs 0 to 0, but decides asked for 7"),
        (Rollback("a spike", 0, {}), "can go on, stop or begin a new stage .*, but a method asks for Rollback"),
        (Rebuild({"wings": 2}), "a new stage changes fields of nas-bench-201, but not all are: wings"),
    ],
)
def test_what_cannot_be_done_is_said(data: SearchData, decision: Decision, message: str) -> None:
    search = job(data, Decides(lambda _: decision))
    with pytest.raises((ValueError, NotImplementedError), match=message):
        search.advance()


def test_each_method_says_when_its_architecture_moves(data: SearchData) -> None:
    search = job(data, EverySecond(), Darts())
    moved = []
    while not search.finished:
        before = alphas(search)
        search.advance()
        moved.append([not torch.equal(a, b) for a, b in zip(before, alphas(search), strict=True)])
    assert moved == [[False, True], [True, True], [False, True], [True, True]]
