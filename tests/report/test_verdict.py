"""What a page opens with, what comes next, and a page of many runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from smallgroup.pages import read_one_run
from smallgroup.report import page
from smallgroup.report.cells import DrawnCell, Way
from smallgroup.report.trained import together
from smallgroup.report.verdict import against_baselines, how_decided, of_teaching
from tests.report.makers import add_training, make_run, picture


def whole_run(folder: Path, **said: object) -> Path:
    """A run with baselines, and what its comparison with each came to."""
    make_run(folder)
    add_training(folder)
    for name in said:
        add_training(folder, name=name, error=8.0)
    verdicts = [{"baseline": name, "verdict": side, "sentence": f"About {name}."} for name, side in said.items()]
    (folder / "verdict.json").write_text(json.dumps({"schema": 1, "verdicts": verdicts}))
    return folder


@pytest.mark.parametrize(
    ("said", "side", "words"),
    [
        (
            {"resnet": "better", "random": "better"},
            "better",
            "The network found is better than a ResNet and a random cell.",
        ),
        (
            {"resnet": "better", "random": "not told apart"},
            "even",
            "The network found is better than a ResNet, and is not told apart from a random cell.",
        ),
        (
            {"resnet": "better", "random": "worse"},
            "worse",
            "The network found is better than a ResNet, and is worse than a random cell.",
        ),
        ({"resnet": None}, "open", "No verdict on accuracy: the network and its baselines have not been compared."),
        ({"resnet": "<b>"}, "open", "No verdict on accuracy: the network and its baselines have not been compared."),
        (
            {},
            "open",
            "No verdict on accuracy: no baseline was trained beside the network; smallgroup run trains them.",
        ),
    ],
)
def test_a_page_opens_with_a_verdict(said: dict[str, Any], side: str, words: str, tmp_path: Path) -> None:
    run = read_one_run(whole_run(tmp_path / "run", **said))
    found = against_baselines(run)
    assert found is not None
    assert (found.side, found.sentence) == (side, words)
    made = page([run])
    first = re.search(r'<section id="answer" class="part"><h2>The answer</h2>\s*<p class="verdict (\w+)">', made)
    assert first is not None
    assert first[1] == side
    assert f">{words}</span></p>" in made


def test_a_search_alone_is_open_and_a_training_has_no_verdict(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    found = against_baselines(read_one_run(run))
    assert found is not None
    assert found.sentence == "No verdict on accuracy: this run has not trained a network yet."
    assert against_baselines(read_one_run(add_training(run))) is None


@pytest.mark.parametrize(
    ("shares", "side", "words"),
    [
        ((0.9, 0.8), "better", "is decided: on 2 of 2 edges"),
        ((0.9, 0.5), "even", "is partly decided: on 1 of 2 edges"),
        ((0.21, 0.2), "even", "is undecided: on 0 of 2 edges"),
    ],
)
def test_a_search_is_decided_where_one_operation_outweighs_the_others(
    shares: tuple[float, ...], side: str, words: str
) -> None:
    ways = tuple(Way(0, "a", 0, (("a", share), ("b", 1 - share))) for share in shares)
    found = how_decided([DrawnCell("cell", "cell", ("x",), (ways,), (1,))])
    assert found is not None
    assert found.side == side
    assert words in found.sentence
    assert f"the smallest share is {min(shares):.2f}." in found.sentence
    assert how_decided([DrawnCell("cell", "cell", ("x",), ((Way(0, "a", 0),),), (1,))]) is None


def test_one_pair_of_seeds_tells_nothing_apart_and_eight_may(tmp_path: Path) -> None:
    runs = [
        read_one_run(
            make_run(
                tmp_path / f"{lam}-{seed}", config={"seed": seed, "lambda": lam}, error=12.5 + (lam == 0), epochs=1
            )
        )
        for seed in range(8)
        for lam in (0.3, 0)
    ]
    (one,) = of_teaching(runs[:2])
    assert one.side == "even"
    assert one.sentence == (
        "The search with teaching is not told apart from the one without: validation error of the retained learner "
        "\u22121.00 points (n = 1; one pair of seeds cannot tell)."
    )
    (none,) = of_teaching(runs[::2])
    assert none.side == "open"
    (eight,) = of_teaching(runs)
    assert eight.side == "better"
    assert "is better than the one without" in eight.sentence
    assert "(n = 8; Wilcoxon p = 0.00781)" in eight.sentence
    assert f">{one.sentence}</span></p>" in page(runs[:2])


def test_training_classes_and_mistakes_come_before_the_search(tmp_path: Path) -> None:
    folder = whole_run(tmp_path / "run", resnet="better", random="better")
    images = [
        {"image": 7, "class": 1, "given": 0, "confidence": 0.97, "picture": picture(), "name": "<i>"},
        {"image": 8, "class": None, "given": 99, "confidence": "x", "picture": picture()},
        {"image": 9, "class": 1, "given": 0, "confidence": 0.5, "picture": "no picture"},
        3,
    ]
    (folder / "training/mistakes.json").write_text(json.dumps({"schema": 1, "wrong": 40, "images": images}))
    (folder / "training/facts.json").write_text(json.dumps({"kind": "training", "classes": ["cat", "dog"]}))
    run = read_one_run(folder)
    made = page([run])
    order = re.findall(r'<section id="([\w-]+)"', made)
    assert order[:5] == ["answer", "training-curves", "training-classes", "training-mistakes", "cells"]
    assert "2 of 40 test images that the network classifies wrongly" in made
    assert "taken for cat, is dog" in made
    assert "probability 97 %" in made
    assert "taken for class 99<" in made
    assert "&lt;i&gt;" in made
    chart = together(run)
    assert chart is not None
    assert [one.name for one in chart.series] == ["searched", "ResNet", "random cell"]
    assert [one.file for one in chart.series] == [f"{name}/metrics.jsonl" for name in ("training", "resnet", "random")]
    assert 'title="random/metrics.jsonl line 1: train_error" data-line="1"' in made
    assert made.count('<g class="point">') == 3
    assert '<td title="from resnet/result.json: test_error">8.00 %</td>' in made
    assert together(read_one_run(make_run(tmp_path / "alone"))) is None


def test_many_runs_are_a_leaderboard_with_the_best_first(tmp_path: Path) -> None:
    errors = [14.0, 12.5, 13.25, 11.0, 12.0]
    folders = [
        make_run(tmp_path / f"run-{seed}", config={"seed": seed}, error=error, epochs=1)
        for seed, error in enumerate(errors)
    ]
    (folders[3] / "result.json").unlink()
    made = page([read_one_run(folder) for folder in folders])
    (board,) = re.findall(r'<div class="board">.*?</table>', made, re.DOTALL)
    assert re.findall(r'<th scope="row" data-value="([^"]*)">', board) == ["run-4", "run-1", "run-2", "run-0", "run-3"]
    assert re.findall(r'<th scope="col" aria-sort="ascending"><button type="button">([^<]*)<', board) == [
        "validation error"
    ]
    heads = re.findall(r'<button type="button">([^<]*)<', board)
    assert "seed" in heads
    row = re.findall(r'<th scope="row" data-value="run-2">.*?</tr>', board)[0]
    fields = re.findall(r'<td data-value="([^"]*)">', row)
    assert fields[heads.index("validation error") - 1] == "13.25"
    assert fields[heads.index("seed") - 1] == "2.0"
    assert "run-2/result.json: validation_error" in row
    assert "Results of the runs" not in made


def test_a_leaderboard_names_methods_and_ranks_runs_without_a_test_error_by_validation(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / f"run-{k}", config={"method": method, "lambda": lam}, error=error, epochs=1)
        for k, (method, lam, error) in enumerate(
            [("darts", 1.0, 14.0), ("gdas", 0.5, 12.5), ("darts", 0.0, 11.0), ("snas", 1.0, 13.0), ("darts", 0.2, 15.0)]
        )
    ]
    add_training(folders[4], error=30.0)
    made = page([read_one_run(folder) for folder in folders])
    (board,) = re.findall(r'<div class="board">.*?</table>', made, re.DOTALL)
    assert re.findall(r'<th scope="row" data-value="([^"]*)">', board) == ["run-4", "run-2", "run-1", "run-3", "run-0"]
    heads = re.findall(r'<button type="button">([^<]*)<', board)
    assert heads.count("learners") == heads.count("methods of the learners") == 1
    assert "search.lambda" not in heads  # there is a column for it
    assert re.findall(r'data-value="(\d [a-z]*)"', board) == ["2 darts", "2 darts", "2 gdas", "2 snas", "2 darts"]
