"""Cells that fit: the best of those that do, and what is given up."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from smallgroup.networks import NetworkDesign, build_network, multiply_adds, parameters
from smallgroup.phases.evaluation.config import Limits
from smallgroup.phases.evaluation.limits import (
    Architecture,
    TooLargeError,
    check_fits,
    choose,
    joint_architecture,
    read_architectures,
)
from smallgroup.runtime import stream
from smallgroup.spaces import SPACES
from smallgroup.spaces.choices import mean_scores, neighbours, score
from smallgroup.spaces.genotypes import AnyGenotype, to_plain
from smallgroup.spaces.space import Rule


def design(_: AnyGenotype) -> NetworkDesign:
    return NetworkDesign(classes=10, image_channels=1, image_size=8, channels=8, cells=3, cells_per_stage=1)


def sizes(genotype: AnyGenotype) -> tuple[int, int]:
    network = build_network(genotype, design(genotype), device="meta")
    return parameters(network), multiply_adds(network, 8, 1)


def group(space: str, learners: int = 2) -> list[Architecture]:
    made = SPACES[space]()
    found = []
    for k in range(learners):
        tables = {n: torch.rand(kind.shape, generator=stream(k, n)).softmax(1) for n, kind in made.kinds.items()}
        found.append(Architecture(made.derive(tables, Rule("top2")), tables))
    return found


def all_cells(architectures: list[Architecture]) -> list[tuple[float, AnyGenotype]]:
    return [
        (score(genotype, each.scores), genotype)
        for each in architectures
        for genotype in (each.genotype, *neighbours(each.genotype, each.scores))
    ]


@pytest.mark.parametrize("space", list(SPACES))
def test_the_best_score_that_fits_is_taken(space: str) -> None:
    architectures = group(space)
    largest = sizes(architectures[1].genotype)
    # As many parameters as the retained cell has, less one: it does not fit, others do.
    limits = Limits(parameters=largest[0] - 1)
    choice = choose(architectures, 1, limits, design)
    fitting = [(value, cell) for value, cell in all_cells(architectures) if sizes(cell)[0] < largest[0]]
    assert choice.learner is not None
    assert score(choice.genotype, architectures[choice.learner].scores) == max(value for value, _ in fitting)
    assert sizes(choice.genotype)[0] < largest[0]
    assert f"{largest[0]:,} parameters" in choice.sentence
    assert f"learner {choice.learner}" in choice.sentence


def test_a_retained_cell_that_fits_is_kept() -> None:
    architectures = group("nas-bench-201")
    largest = sizes(architectures[0].genotype)
    choice = choose(architectures, 0, Limits(*largest), design)
    assert (choice.genotype, choice.learner) == (architectures[0].genotype, 0)
    assert "fits" in choice.sentence


def test_a_consensus_is_where_the_choice_begins() -> None:
    """Its own neighbours are candidates too, by the mean of the scores; a cell of it is no learner's."""
    architectures = group("nas-bench-201")
    mean = mean_scores([each.scores for each in architectures])
    joint = joint_architecture(architectures, SPACES["nas-bench-201"]().derive(mean, Rule("top2")))
    assert all(torch.equal(joint.scores[kind], table) for kind, table in mean.items())
    every = [*architectures, joint]
    size = sizes(joint.genotype)
    kept = choose(every, 2, Limits(*size), design)
    assert (kept.genotype, kept.learner) == (joint.genotype, None)
    assert kept.sentence.startswith("the cell of the consensus fits: ")
    beside = {"cell": torch.eye(5)[[3] * 6] * 0.9 + 0.02}  # all 3x3, and nearly sure of it: the largest cells
    large = Architecture(SPACES["nas-bench-201"]().derive(beside, Rule("top2")), beside)
    everywhere = [large, large, joint]
    other = choose(everywhere, 2, Limits(size[0] - 1), design)
    best = max(value for value, cell in all_cells(everywhere) if sizes(cell)[0] < size[0])
    assert other.learner is None
    assert score(other.genotype, joint.scores) == best
    assert "the cell of the consensus has" in other.sentence
    assert "in its place a cell of the consensus with" in other.sentence


def test_what_was_given_up_is_said_with_its_sign() -> None:
    """Learners are retained by their loss: a cell of another learner may have the higher score."""
    architectures = group("nas-bench-201")
    first, second = (score(each.genotype, each.scores) for each in architectures)
    assert first != second
    worse, better = (0, 1) if first < second else (1, 0)
    large = sizes(architectures[worse].genotype)
    # A limit that the retained cell breaks and the better one keeps, if there is one by parameters or multiply-adds.
    small = sizes(architectures[better].genotype)
    limits = Limits(large[0] - 1) if small[0] < large[0] else Limits(None, large[1] - 1)
    choice = choose(architectures, worse, limits, design)
    gap = score(choice.genotype, architectures[choice.learner or 0].scores) - min(first, second)
    word = "higher" if gap > 0 else "lower"
    assert f"whose log score is {abs(gap):.4g} {word}: " in choice.sentence


def test_a_limit_on_skip_connections_holds_for_the_cells_beside_it() -> None:
    (first, _) = group("darts")
    free, strict = list(first.cells()), list(replace(first, most_skips=first.genotype.skips).cells())
    more = [cell for cell in free if cell.skips > first.genotype.skips]
    assert more  # a neighbour with another skip connection is there
    assert strict == [cell for cell in free if cell not in more]


def test_a_cell_by_itself_has_to_fit() -> None:
    cell = group("nas-bench-201")[0].genotype
    count, cost = sizes(cell)
    check_fits(cell, Limits(count, cost), design)
    with pytest.raises(
        TooLargeError, match=rf"must have at most {cost - 1:,} multiply-adds, but this one has {count:,}"
    ):
        check_fits(cell, Limits(None, cost - 1), design)


def test_both_limits_hold() -> None:
    architectures = group("nas-bench-201", 3)
    every = sorted(sizes(cell) for _, cell in all_cells(architectures))
    limits = Limits(every[-1][0], sorted(cost for _, cost in every)[3])
    chosen = choose(architectures, 0, limits, design).genotype
    assert sizes(chosen)[1] <= (limits.multiply_adds or 0)


def test_where_nothing_fits_it_is_said() -> None:
    with pytest.raises(ValueError, match=r"must have at most 10 parameters and 5 multiply-adds, but all \d+ have"):
        choose(group("nas-bench-201"), 0, Limits(10, 5), design)


def written(tmp_path: Path, learners: Any) -> Path:
    path = tmp_path / "architectures.json"
    path.write_text(json.dumps({"schema": 1, "learners": learners}))
    return path


def plain(each: Architecture, space: str) -> dict[str, Any]:
    tables = {kind: table.tolist() for kind, table in each.scores.items()}
    return {"space": space, "genotype": to_plain(each.genotype), "scores": tables}


def test_architectures_are_read_back(tmp_path: Path) -> None:
    (first, second) = group("darts")
    entry = plain(first, "darts")
    entry["scores"]["normal"][0][0] = None
    found = read_architectures(written(tmp_path, [entry, plain(second, "darts")]))
    assert [each.genotype for each in found] == [first.genotype, second.genotype]
    assert found[0].scores["normal"][0, 0] == -math.inf
    torch.testing.assert_close(found[1].scores["reduce"], second.scores["reduce"])


@pytest.mark.parametrize(
    "broken",
    [
        [],
        3,
        [{}],
        [{"space": "darts", "genotype": "|x|", "scores": {}}],
        [{**plain(group("nas-bench-201")[0], "nas-bench-201"), "scores": {"cell": [[0.1]]}}],
        [{**plain(group("nas-bench-201")[0], "nas-bench-201"), "scores": {"cell": "many"}}],
        [{**plain(group("nas-bench-201")[0], "nas-bench-201"), "scores": []}],
    ],
)
def test_what_are_no_architectures(tmp_path: Path, broken: Any) -> None:
    with pytest.raises(ValueError, match="must hold the architectures of a search"):
        read_architectures(written(tmp_path, broken))
