"""What methods decide at the end of an epoch, and what the search makes of it."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from rich.console import Console

from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.display.search import SearchDisplay
from smallgroup.methods import Continue, Darts, Decision, EpochEnd, Method, Progress, Rebuild, Rollback, Stop
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.config import BatchSizes
from smallgroup.report.origins import events_of
from smallgroup.report.run import read_run
from smallgroup.runner import read_current_rows, read_rows
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
    far: int = 0

    @property
    def reach(self) -> int:
        return self.far

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
    return open_search_data(DataConfig(labeled_fraction=0.05), seed=0)


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

    def rows(epoch: int, exchange: Any = None) -> Any:  # noqa: ARG001
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
        (Rollback("a spike", 0, {}), r"can roll back to epochs within its reach \(none\), but decides asked for 0"),
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


def spike(end: EpochEnd) -> Decision:
    """Back from epoch 3 to epoch 1, once: with the weight decay it went back with it goes on."""
    if end.progress.epoch == 3 and end.settings["weight_decay"] != 0.5:
        return Rollback("a spike", 1, {"weight_decay": 0.5})
    return Continue()


def test_a_method_may_go_back_and_on_with_another_weight_decay(data: SearchData) -> None:
    """All is as at the end of the epoch it names: weights, moments, schedule, batches, and those of its peers."""
    search = job(data, Decides(spike, far=2), Darts(), epochs=6)
    states: list[dict[str, torch.Tensor]] = []
    rows: list[Any] = []
    while search.epochs_done < 3:
        search.advance()
        states.append(search._own_state()[0])
        states[-1] = {name: tensor.clone() for name, tensor in states[-1].items()}
    found = search.advance()
    assert found is not None
    assert [row.get("rolled_back") for row in found] == ["to the end of epoch 2, with weight_decay 0.5: a spike", None]
    assert [row["rolled_back_to"] for row in found] == [1, 1]
    assert (search.step, search.position, search.epochs_done, search.repeated) == (4, 2, 2, 2)
    back = search._own_state()[0]
    assert back.keys() == states[1].keys()
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in back.items())
    for searcher in search.searchers:
        searcher.prepare(search.position)
    decays = [searcher.optimizers.w.param_groups[0]["weight_decay"] for searcher in search.searchers]  # type: ignore[union-attr]
    assert decays == [0.5, search.config.weights.weight_decay]
    while not search.finished:
        rows += search.advance() or []
    assert [row["epoch"] for row in rows if row["learner"] == 0] == [2, 3, 4, 5]
    assert (search.step, search.position) == (8, 6)


def test_going_back_without_a_change_repeats_every_bit(data: SearchData) -> None:
    once: list[int] = []

    def again(end: EpochEnd) -> Decision:
        once.append(end.progress.epoch)
        return Rollback("once more", 0, {}) if once == [0, 1, 2] else Continue()

    search, plain = job(data, Decides(again, far=3)), job(data, Decides())
    while not search.finished:
        search.advance()
    while not plain.finished:
        plain.advance()
    assert once == [0, 1, 2, 1, 2, 3]
    for name, tensor in plain.state()[0].items():
        assert torch.equal(tensor, search.state()[0][name]), name


def test_a_search_that_went_back_survives_a_resumption_and_its_metrics_say_so(tmp_path: Path, data: SearchData) -> None:
    def made() -> SearchJob:
        return job(data, Decides(spike, far=3), Darts(), epochs=5)

    whole = made()
    runner(tmp_path / "whole").run(whole)
    for stop in (3, 4, 5):  # before it goes back, just after, and later
        interrupted(made(), tmp_path / f"part{stop}", stop)
        again = made()
        runner(tmp_path / f"part{stop}").run(again, resume=True)
        assert (again.step, again.repeated) == (whole.step, whole.repeated) == (7, 2)
        for name, tensor in whole.state()[0].items():
            assert torch.equal(tensor, again.state()[0][name]), name
        left, right = (list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", f"part{stop}"))
        assert left == right
    rows = [row for row in left if row["learner"] == 0]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3, 2, 3, 4]
    current = read_current_rows(tmp_path / "whole" / "metrics.jsonl")
    assert [row["epoch"] for row in current if row["learner"] == 1] == [0, 1, 2, 3, 4]
    run = read_run(tmp_path / "whole")
    assert run.epochs == [1, 2, 3, 4, 5]  # people count from 1
    assert [row.epoch for row in run.rows if row.learner == 0] == [1, 2, 3, 4, 5]
    assert [event for event in events_of(run) if "rolled back" in event] == [
        "learner 0, epoch 4 (metrics.jsonl line 7), rolled back: to the end of epoch 2, with weight_decay 0.5: a spike"
    ]


def test_a_search_that_goes_back_is_shown_where_it_stands(data: SearchData) -> None:
    """It takes 8 steps for a schedule of 6: bar, epochs and the time left are those of the schedule."""
    console = Console(file=io.StringIO(), width=300)
    search = job(data, Decides(spike, far=2), epochs=6)
    with SearchDisplay(console) as display:
        display.started(search)
        while not search.finished:
            rows = search.advance()
            display.stepped(search.step, 10.0 * search.step)
            display.ended_epoch(rows or [])
    assert search.step == 8
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.findall(r"(?m)^epoch (\d)/6  step (\d)/6", told) == [(n, n) for n in "12343456"]
    assert "its method rolls back, to the end of epoch 2, with weight_decay 0.5: a spike" in told


def test_settings_that_cannot_be_changed_are_refused(data: SearchData) -> None:
    search = job(data, Decides(lambda end: Rollback("x", 0, {"lr": 1.0}) if end.progress.epoch else Continue(), far=2))
    search.advance()
    with pytest.raises(ValueError, match="a setting that a method changes must be one of weight_decay, but got 'lr'"):
        search.advance()
