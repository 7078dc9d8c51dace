"""Trainings on real ranks: the numbers of one process, the same images, and steps on all ranks or on none."""

from pathlib import Path
from typing import Any

import pytest

from smallgroup.phases.training.slices import Piece, Slices
from tests.phases.training.slices_worker import CASES, IMAGES, RANKS, main
from tests.tools.ranks import fork, launch

WORKER = "tests.phases.training.slices_worker"
TOLERANCE = 1e-6
EQUAL = ("plain", "adaptive", "synchronized", "resumed", "not finite", "unreadable")
"""Those that are the training of one process, running statistics included."""
FEW = ("plain", "images", "not finite")


def distance(left: Any, right: Any) -> float:
    """The largest difference between two numbers; what is no number must be the same."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        return max((distance(left[key], right[key]) for key in left), default=0.0)
    if isinstance(left, list):
        assert len(left) == len(right)
        return max((distance(a, b) for a, b in zip(left, right, strict=True)), default=0.0)
    if isinstance(left, bool | str):
        assert left == right
        return 0.0
    return abs(float(left) - float(right))


def check(found: list[dict[str, Any]]) -> None:
    """Everything that must hold of what the ranks have found."""
    alone = found[0]["1"]
    for ranks in range(2, len(found) + 1):
        on_ranks = {name: [found[rank][str(ranks)][name] for rank in range(ranks)] for name in alone}
        for name, outcomes in on_ranks.items():
            if name == "images":
                check_images(alone[name], outcomes)
            elif name == "looked at":
                assert outcomes == [alone[name]] * ranks  # bit for bit
            else:
                assert all(one["weights"] == outcomes[0]["weights"] for one in outcomes), name
                assert all(one["statistics"] == outcomes[0]["statistics"] for one in outcomes), name
                for part in ("weights", "rows", "test", "statistics") if name in EQUAL else ("weights", "rows"):
                    if name != "per device":
                        assert distance(outcomes[0][part], alone[name][part]) <= TOLERANCE, (name, ranks, part)
        for name in {"not finite", "unreadable"} & alone.keys():
            assert all(one["unchanged"] for one in on_ranks[name])
            errors = [one["error"] for one in on_ranks[name]]
            assert errors[-1] == alone[name]["error"] != "none"
            assert set(errors[:-1]) == {ERRORS[name].format(rank=ranks - 1)}


ERRORS = {
    "not finite": "FloatingPointError: the loss is not finite in step 0; nothing was changed by this step",
    "unreadable": "PeerError: rank {rank} of the group failed, so nothing was changed by this step: "
    "OSError: the disk is gone",
}


def check_images(whole: list[list[list[Any]]], slices: list[list[list[list[Any]]]]) -> None:
    """Every image of every batch is on one rank, as it is in one process; a rank without images repeats some."""
    seen = set()
    for step, batch in enumerate(whole):
        read = [[tuple(image) for image in one[step]] for one in slices]
        assert {image for one in read for image in one} == {tuple(image) for image in batch}
        if len(batch) >= 2 * len(slices):
            assert sum(map(len, read)) == len(batch)
        seen |= {tuple(image) for image in batch}
    assert len(seen) == IMAGES


def test_ranks_train_as_one_process_does_and_fail_together(tmp_path: Path) -> None:
    check(fork(lambda rank: main(rank, tmp_path, FEW, ranks=2), 2, tmp_path))


@pytest.mark.slow
def test_every_kind_of_training_on_ranks(tmp_path: Path) -> None:
    found = launch(WORKER, RANKS, tmp_path)
    assert found[0]["1"].keys() == CASES.keys()
    check(found)
    # What has to differ: a batch norm on a rank has normalized the images of the rank alone.
    assert distance(found[0]["2"]["per device"]["weights"], found[0]["1"]["per device"]["weights"]) > 1e-3


def test_a_batch_is_divided_over_ranks_as_it_is_into_parts() -> None:
    def on(ranks: int, accumulate: int, images: int) -> list[list[Piece]]:
        slices = [Slices(accumulate) for _ in range(ranks)]
        for rank, one in enumerate(slices):
            one.rank, one.ranks = rank, ranks
        return [one.pieces(images) for one in slices]

    assert on(1, 1, 5) == [[Piece(0, 0, 5, 1.0)]]
    assert on(1, 2, 5) == [[Piece(0, 0, 3, 0.6), Piece(1, 3, 5, 0.4)]]
    assert on(2, 1, 5) == [[Piece(0, 0, 3, 0.6)], [Piece(1, 0, 2, 0.4)]]
    assert on(2, 4, 8) == [[Piece(0, 0, 2, 0.25), Piece(2, 2, 4, 0.25)], [Piece(1, 0, 2, 0.25), Piece(3, 2, 4, 0.25)]]
    # Batch norm needs two images: the third rank computes the first part for company, and it counts nothing.
    assert on(3, 1, 5) == [[Piece(0, 0, 3, 0.6)], [Piece(1, 0, 2, 0.4)], [Piece(0, 0, 3, 0.0)]]
    assert all(sum(piece.share for one in on(3, 4, n) for piece in one) == pytest.approx(1) for n in range(2, 40))
