"""Groups on several real processes: the bits of one, few bytes, and steps that happen on all ranks or on none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from smallgroup.group import LocalExchange, RankExchange, SmallGroup
from smallgroup.testing import TwinDevice
from tests.group.networks import make_batches, make_learners
from tests.group.ranks.cases import Case, digest, state_of
from tests.group.ranks.failures import failures
from tests.group.ranks.worker import BATCH, CLASSES, RANKS
from tests.tools.ranks import launch

WORKER = "tests.group.ranks.worker"
CONSTANT = (RANKS - 1) * 8 * (1 + 3 * (3 + 2 * 19))
"""What three meetings say about their tables, to each of the others: 8-byte integers, 19 per learner of a rank."""


def check(found: list[dict[str, Any]]) -> None:
    """Everything that must hold of what the ranks have found."""
    local = joined([one["local"] for one in found])
    for ranks in range(1, RANKS + 1):
        on_ranks = [found[rank][str(ranks)] for rank in range(ranks)]
        for name, expected in local.items():
            outcomes = [one[name] for one in on_ranks]
            if name in failures():
                check_failure(name, expected, outcomes)
            else:
                assert joined(outcomes) == expected, f"{name} on {ranks} ranks"
        for rank in range(ranks):
            for name, steps in found[rank][f"bytes {ranks}"].items():
                learners = int(name[-1])
                for counted, said, _, _ in steps:
                    assert counted == said, name
                    assert counted <= 2 * learners * BATCH * CLASSES * 4 + CONSTANT, name
                    assert (counted > 0) == (ranks > 1)
                # Once sizes are known one message per meeting, and one per table where a rank has fewer learners.
                assert steps[0][3] == 1 + 3 + 2 * learners
                assert steps[1][3] == (3 if learners % ranks == 0 else 3 + 2 * learners)
    for one in found:
        assert one["different steps"].startswith("all ranks must take the same steps, but they are at different ones")
        assert one["different sizes"] == "all ranks must have the same number of learners, but they have [3, 2, 3]"
    # Rank 1 has ended its process in the middle of a step: the others notice at once, and keep nothing.
    assert "death" not in found[1]
    for rank in (0, 2):
        died, later = found[rank]["death"]
        assert died.startswith("unchanged: ")
        assert "an exchange between ranks was cut short" not in died
        assert later.startswith("unchanged: an exchange between ranks was cut short")
    assert max(found[rank]["seconds until it is known"] for rank in (0, 2)) < 60


def check_failure(name: str, expected: dict[str, Any], outcomes: list[dict[str, Any]]) -> None:
    """All ranks have failed and kept nothing; then they go on as one process goes on that has failed."""
    assert all(one["unchanged"] for one in outcomes), name
    assert joined([one["after"] for one in outcomes]) == expected["after"], name
    errors = [one["error"] for one in outcomes]
    assert "none" not in errors, name
    if all(error.startswith("NonFiniteError") for error in errors):
        assert set(errors) == {expected["error"]}, name
    elif len(errors) > 1 and name != "other classes":
        # The rank that failed says why, the others say who it was.
        (rank,) = [rank for rank, error in enumerate(errors) if not error.startswith("PeerError")]
        told = f"PeerError: rank {rank} of the group failed, so nothing was changed by this step: {errors[rank]}"
        assert set(errors) == {errors[rank], told}, name


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One dictionary of several, which must not say anything twice."""
    whole = {k: value for part in parts for k, value in part.items()}
    assert len(whole) == sum(map(len, parts))
    return whole


def test_ranks_compute_the_bits_of_one_process_and_fail_together(tmp_path: Path) -> None:
    found = launch(WORKER, RANKS, tmp_path)
    check(found)
    local = joined([one["local"] for one in found])
    errors = {one["error"].partition(":")[0] for name, one in local.items() if name in failures()}
    assert errors == {"NonFiniteError", "ZeroDivisionError", "ValueError"}


@pytest.mark.slow
def test_all_settings_on_ranks(tmp_path: Path) -> None:
    found = launch(WORKER, RANKS, tmp_path, "all")
    check(found)
    for rank in range(RANKS):
        for name, steps in found[rank][f"bytes {RANKS}"].items():
            for counted, _, wire, _ in steps:
                # All ranks together, with what gloo, TCP and two barriers say beside it.
                assert counted < wire < RANKS * (2 * counted + 20_000), name


# The exchange by itself.


def test_what_is_compared_depends_on_every_bit() -> None:
    """A hash that would not change proves nothing."""
    case = Case(2)
    group = case.group(LocalExchange)
    before = [digest(state_of(group, k)) for k in range(2)]
    with torch.no_grad():
        weight = group.learners[1].w["first.weight"]
        weight[0, 0] = torch.nextafter(weight[0, 0], weight[0, 0] + 1)
    after = [digest(state_of(group, k)) for k in range(2)]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_an_exchange_is_made_for_the_learners_of_the_group() -> None:
    with pytest.raises(ValueError, match="made for the 2 learners of the group, but it is for 3"):
        SmallGroup(make_learners(2), exchange=LocalExchange(3))


def test_ranks_need_a_process_group() -> None:
    with pytest.raises(RuntimeError, match=r"torch.distributed.init_process_group, but it was not called"):
        RankExchange(2)


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("meeting", [1, 2, 3])
def test_a_meeting_that_is_interrupted_ends_the_group(meeting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have kept the step, or may wait for tables: to go on would be to compute something else than they."""
    group = SmallGroup(make_learners(2), exchange=RankExchange(2))
    group.step(*make_batches())
    before, gathered, left = digest([state_of(group, k) for k in range(2)]), distributed.all_gather, [meeting]

    def interrupted(*given: Any, **named: Any) -> None:
        gathered(*given, **named)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(distributed, "all_gather", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.step(*make_batches())
    assert digest([state_of(group, k) for k in range(2)]) == before
    assert group.steps == 1
    with pytest.raises(RuntimeError, match="an exchange between ranks was cut short"):
        group.step(*make_batches())


@pytest.mark.usefixtures("one_rank")
def test_tables_arrive_where_learners_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks share a GPU, so that tables travel over gloo, between CPUs."""
    exchange, sent = RankExchange(2), torch.arange(6.0).reshape(2, 3)
    exchange.ranks, exchange.mine = 2, range(0, 2, 2)
    monkeypatch.setattr(exchange, "_gathered", lambda own: [own] * 2)
    monkeypatch.setattr(distributed, "broadcast", lambda flat, **_: flat.copy_(sent.flatten()))
    with TwinDevice() as twin:
        own, other = exchange.tables({0: [sent.to(twin.device)]})
        assert own is not None
        assert other is not None
        assert other[0].device == own[0].device == twin.device
        assert torch.equal(other[0].to("cpu"), sent)
        exchange.agree(None)
        own, other = exchange.tables({0: [2 * sent.to(twin.device)]})  # with the meeting itself
        assert own is not None
        assert other is not None
        assert other[0].device == own[0].device == twin.device
        assert torch.equal(other[0].to("cpu"), 2 * sent)


class Meetings(LocalExchange):
    """Counts them."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.seen: list[str] = []

    def tables(self, own: Any) -> Any:
        self.seen.append("tables")
        return super().tables(own)

    def agree(self, failure: BaseException | None) -> None:
        self.seen.append("yes" if failure is None else type(failure).__name__)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["tables", "tables", "yes"]),
        ({"hypergradient": "first-order"}, ["tables", "yes"]),
        ({"targets": "uniform"}, ["yes"]),
        ({"lam": 0.0}, ["yes"]),
    ],
)
def test_a_step_meets_only_where_learners_need_each_other(options: dict[str, Any], expected: list[str]) -> None:
    exchange = Meetings(2)
    group = SmallGroup(make_learners(2), exchange=exchange, **options)
    group.step(*make_batches())
    assert exchange.seen == expected
    exchange.seen.clear()
    group.architecture_gradients(*make_batches())
    assert exchange.seen == expected
    exchange.seen.clear()
    with pytest.raises(TypeError):
        group.step(None, None, None)  # type: ignore[arg-type]
    assert exchange.seen == ["TypeError"]
