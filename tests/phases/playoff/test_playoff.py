"""The play-off: who trains how long, who goes on, and the same bits after an interruption."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.data import AugmentationConfig, DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.phases.playoff.candidates import distinct, in_turn, next_best
from smallgroup.phases.playoff.job import Candidate, PlayOffJob
from smallgroup.phases.playoff.rounds import Halving, going_on, worth_trying
from smallgroup.phases.training.trainee import Trainee
from smallgroup.runner import read_rows
from smallgroup.spaces.choices import score
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.nas_bench_201.cell import OPERATIONS, Cell
from tests.configs import FULL_SIZE, playoff_config
from tests.runner.jobs import interrupted, runner

STRONG = Cell(("nor_conv_3x3",) * 6)
LIGHT = Cell(("nor_conv_1x1", "skip_connect", "nor_conv_1x1", "skip_connect", "avg_pool_3x3", "nor_conv_3x3"))
POOLS = Cell(("avg_pool_3x3",) * 6)
SKIPS = Cell(("skip_connect",) * 6)
CELLS = [POOLS, STRONG, SKIPS, LIGHT, Cell(("nor_conv_1x1",) * 6)]


def play_off(cells: list[Cell] | None = None, **options: Any) -> PlayOffJob:
    network = NetworkConfig(**FULL_SIZE, channels=4, cells_per_stage=1, auxiliary="none")
    data = open_training_data(DataConfig(), AugmentationConfig(), seed=1, validation=0.5)
    candidates = [Candidate(f"cell {k}", cell) for k, cell in enumerate(cells or CELLS)]
    steps = options.pop("steps", 0)
    config = playoff_config(network=network, batch_size=32, steps_per_search_step=0.5, **options)
    return PlayOffJob(config, data, candidates, seed=3, search_steps=2 * steps)


def played(job: PlayOffJob) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while not job.finished:
        rows += [dict(row) for row in job.advance() or ()]
    return rows


@pytest.mark.parametrize(("candidates", "rounds"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)])
def test_halving_ends_with_one(candidates: int, rounds: int) -> None:
    halving = Halving(100.0, [1.0] * candidates)
    assert halving.rounds == rounds
    left = list(range(candidates))
    for _ in range(rounds):
        left = going_on([(one, float(one), 0.0) for one in left])
    assert left == [0]


@pytest.mark.parametrize(("least", "number"), [(1, 8), (20, 8), (21, 7), (40, 4), (60, 4), (61, 3), (1000, 2)])
def test_fewer_candidates_where_steps_would_be_few(least: int, number: int) -> None:
    """480 steps: 20 for each of eight in three rounds, 60 for each of four in two."""
    assert worth_trying(Halving(480.0, [1.0] * 8), least) == number


def test_the_dearest_candidate_gets_the_least_steps_too() -> None:
    assert worth_trying(Halving(480.0, [1.0, 1.0, 3.0]), 30) == 2
    assert worth_trying(Halving(480.0, [1.0, 1.0, 2.0]), 40) == 3


@pytest.mark.parametrize("seconds", [None, 3.0])
def test_candidates_beyond_the_budget_do_not_take_part(seconds: float | None) -> None:
    job = play_off(steps=30, least_steps=10**6, seconds=seconds)
    job.advance()
    assert [one.genotype for one in job.candidates] == CELLS[:2]
    assert len(job.standings) == len(job.costs) == 2
    again = play_off(steps=30, least_steps=10**6, seconds=seconds)
    again.load_state(*job.state())
    assert again.candidates == job.candidates
    played(again)
    assert again.winner in (0, 1)


def test_rounds_share_the_budget_and_candidates_their_round() -> None:
    """480 seconds in three rounds: 20 for each of eight, 40 of four, 80 of two; dearer steps are fewer."""
    halving = Halving(480.0, [1.0, 2.0] * 4)
    assert [turn.steps for turn in halving.turns(0, range(8))] == [20, 10] * 4
    assert [turn.steps for turn in halving.turns(1, (0, 1, 2, 7))] == [40, 20, 40, 20]
    assert [turn.steps for turn in halving.turns(2, (1, 6))] == [40, 80]
    assert [turn.steps for turn in Halving(1.0, [9.0] * 2).turns(0, (0, 1))] == [1, 1]


def test_the_better_half_goes_on_and_the_loss_decides_between_equals() -> None:
    assert going_on([(0, 5.0, 1.0), (1, 4.0, 9.0), (2, 5.0, 0.5), (3, 6.0, 0.1)]) == [1, 2]
    assert going_on([(4, 1.0, 1.0), (7, 1.0, 1.0), (9, 1.0, 1.0)]) == [4, 7]


def test_a_play_off_is_short_trainings_of_which_the_better_half_goes_on() -> None:
    job = play_off(steps=45)
    rows = played(job)
    assert [(row["round"], row["candidate"]) for row in rows][:5] == [(0, k) for k in range(5)]
    by_round = [[row for row in rows if row["round"] == number] for number in range(3)]
    assert [len(each) for each in by_round] == [5, 3, 2]
    assert [[row["steps"] for row in each] for each in by_round] == [[3] * 5, [8] * 3, [15] * 2]
    for now, after in pairwise(by_round):
        kept = {row["candidate"] for row in after}
        worst = max(row["validation_error"] for row in now if row["candidate"] in kept)
        assert all(row["validation_error"] >= worst for row in now if row["candidate"] not in kept)
    assert job.step == 15 + 15 + 14
    last = min(by_round[2], key=lambda row: (row["validation_error"], row["validation_loss"]))
    assert job.winner == last["candidate"]


def test_a_training_goes_on_in_the_next_round_where_it_stopped() -> None:
    """The winner is what the same steps in one go make of it."""
    job = play_off([STRONG, POOLS, SKIPS], steps=24)
    rows = played(job)
    alone = Trainee(job.training, job.data, job.candidates[job.winner].genotype, seed=3)
    for step in range(job.standings[job.winner].steps):
        alone.begin(0)
        x, y = job.batches.batch(step)
        answer = alone.answer(x.contiguous(memory_format=torch.channels_last), y, step=step, part=0)
        alone.follow(answer, share=1.0, step=step)
        alone.check(step)
        alone.commit()
    assert alone.validate().error == next(
        row["validation_error"] for row in reversed(rows) if row["candidate"] == job.winner
    )


def test_equal_seconds_give_a_light_cell_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that runs with the work: a step takes a second, and one more for each 3x3 convolution."""
    job = play_off([STRONG, SKIPS], seconds=420.0)
    assert job.data.validation is not None
    look = len(job.data.validation) / 32 / 3  # a pass forward is a third of one with its way back
    now = 0.0

    def tick(trainee: Trainee, *_: object, **__: object) -> None:
        nonlocal now
        now += 1 + str(trainee.genotype).count("nor_conv_3x3")

    monkeypatch.setattr("smallgroup.phases.playoff.job._one_step", tick)
    monkeypatch.setattr("smallgroup.phases.playoff.job.time.process_time", lambda: now)
    played(job)
    assert job.costs == [7.0, 1.0]
    assert [standing.steps for standing in job.standings] == [int(210 / 7 - look), int(210 / 1 - look)]
    assert [standing.seconds for standing in job.standings] == [7 * int(30 - look), int(210 - look)]


@pytest.mark.parametrize(
    ("budget", "step"),
    [
        ({"steps": 45}, 3),
        pytest.param({"steps": 45}, 16, marks=pytest.mark.slow),
        ({"seconds": 3.0}, 1),
        pytest.param({"seconds": 3.0}, 31, marks=pytest.mark.slow),
    ],
)
def test_a_play_off_that_was_interrupted_ends_with_the_same_bits(
    tmp_path: Path, step: int, budget: dict[str, Any]
) -> None:
    """Seconds are measured once: what they came to is part of the state."""
    whole, part, again = play_off(**budget), play_off(**budget), play_off(**budget)
    if "seconds" in budget:
        costs = [0.012, 0.02, 0.01, 0.015, 0.013]
        whole.costs, part.costs = list(costs), list(costs)
    runner(tmp_path / "whole").run(whole)
    interrupted(part, tmp_path / "part", step)
    runner(tmp_path / "part").run(again, resume=True)
    assert again.winner == whole.winner
    rows = [list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part")]
    assert rows[0] == rows[1]
    (mine, _), (theirs, _) = whole.state(), again.state()
    assert mine.keys() == theirs.keys()
    assert mine.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_cells_come_by_falling_score_and_each_once() -> None:
    """The oracle: all 4,096 cells without `none`, sorted."""
    table = torch.rand(6, 5, generator=torch.Generator().manual_seed(2)).softmax(dim=1)
    table[:, 0] = 0.9  # `none`, whose score has no meaning here
    best = Cell(tuple(OPERATIONS[1 + int(row[1:].argmax())] for row in table))
    found = [cell for _, cell in zip(range(40), next_best(best, {"cell": table}), strict=False)]
    assert len(set(found)) == 40
    assert best not in found
    scores = [score(cell, {"cell": table}) for cell in found]
    assert scores == sorted(scores, reverse=True)
    every = sorted(
        (score(cell, {"cell": table}) for cell in all_cells() if cell != best),
        reverse=True,
    )
    assert scores == pytest.approx(every[:40])


def all_cells() -> list[Cell]:
    return [Cell(tuple(OPERATIONS[1 + (number // 4**edge) % 4] for edge in range(6))) for number in range(4**6)]


def test_candidates_are_distinct_functions_in_turn() -> None:
    same = [
        Cell(("nor_conv_3x3", "none", "none", "none", "skip_connect", "none")),
        Cell(("nor_conv_3x3", "nor_conv_1x1", "none", "none", "skip_connect", "none")),  # one operation is dead
    ]
    first, second = ([Candidate(f"{name}{k}", cell) for k, cell in enumerate(same)] for name in "ab")
    others = [Candidate("c", STRONG), Candidate("d", SKIPS)]
    order = list(in_turn([iter(first), iter([*second, *others])]))
    assert [one.source for one in order] == ["a0", "b0", "a1", "b1", "c", "d"]
    assert [one.source for one in distinct(order, 2)] == ["a0", "c"]
    assert [one.source for one in distinct(order, 9)] == ["a0", "c", "d"]
