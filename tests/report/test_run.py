"""A run's folder may hold anything: what can be used is used, and the rest is told of."""

import json
from pathlib import Path
from typing import Any

import pytest

from smallgroup.pages import read_one_run, read_runs
from smallgroup.phases.search.config import ANSWERS
from smallgroup.report import page, read_run
from smallgroup.report.origins import events_of, seconds_by_part, warnings_of
from smallgroup.report.run import finite, table_at
from smallgroup.runner.lock import locked
from smallgroup.spaces.genotypes import to_plain
from tests.report.makers import CELLS, make_run


def test_a_whole_run(tmp_path: Path) -> None:
    run = read_one_run(make_run(tmp_path / "it"))
    assert (run.name, run.kind, run.state, run.problems) == ("it", "search", "finished", ())
    assert (run.learners, run.epochs, run.retained) == ([0, 1], [1, 2, 3, 4], 0)
    assert run.classes == ["cat", "dog", "owl"]
    row = run.row(1, 3)
    assert row is not None
    assert row.line == 6
    assert json.loads((tmp_path / "it/metrics.jsonl").read_text().splitlines()[5])["w_error"] == row.number("w_error")
    assert str(run.cell) == CELLS[1]
    assert run.given.size is not None
    assert run.given.size.parameters > 1000
    assert seconds_by_part(run) == {"stage 1": 4.0, "stage 2": 8.0, "stage 3": 20.0, "rest": 8.0}


def test_what_differs_from_the_recipe_is_known(tmp_path: Path) -> None:
    run = read_one_run(make_run(tmp_path, config={"search": {"epochs": 4, "lambda": 0.25}}))
    assert run.given.departures == {"search": {"epochs": 4, "lambda": 0.25}}
    assert run.given.environment["cpu"] == "a processor"
    assert run.given.recipe["search"]["lambda"] == 0.3
    assert '<th scope="row">search.lambda</th><td>0.25</td><td>0.3</td>' in page([run])


def test_a_run_that_goes_on_and_one_that_was_stopped(tmp_path: Path) -> None:
    folder = make_run(tmp_path, finished=False)
    assert read_run(folder).state == "stopped"
    with locked(folder):
        run = read_run(folder)
        assert run.state == "running"
    assert run.retained == 0  # who has the lowest loss so far
    assert str(run.cell) == CELLS[1]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "metrics.jsonl",
            b'{"epoch": 0, "learner": 0, "w_error": 1.5}\n{oops\n{"epoch": 1}\n',
            "line 2 of metrics.jsonl",
        ),
        ("metrics.jsonl", b"\xff\xfe\n", "line 1 of metrics.jsonl cannot be read"),
        ("metrics.jsonl", b'{"epoch": "x"}\n', "no epoch or learner that can be used"),
        ("metrics.jsonl", b'{"epoch": 0, "learner": -1}\n', "no epoch or learner that can be used"),
        ("metrics.jsonl", b'{"epoch": 0, "learner": 99999999}\n', "no epoch or learner that can be used"),
        ("metrics.jsonl", b"[" * 100_000 + b"\n", "line 1 of metrics.jsonl cannot be read"),
        ("result.json", b"[1]", "result.json cannot be used: it is not a JSON object"),
        ("result.json", b"{", "result.json cannot be used"),
        ("gallery.json", b"\x00", "gallery.json cannot be used"),
        ("facts.json", b'"x"', "facts.json cannot be used"),
        ("times.jsonl", b"1\n", "line 1 of times.jsonl"),
        ("config.yaml", b"a: [", "config.yaml cannot be used"),
        ("config.yaml", b"searching: 1", "config.yaml cannot be used: a config has no key 'searching'"),
    ],
)
def test_damage_is_told_of_and_the_rest_is_drawn(file: str, content: bytes, said: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / file).write_bytes(content)
    run = read_one_run(folder)
    assert any(said in problem for problem in run.problems), run.problems
    assert said.partition(":")[0] in page([run])


ODD: list[Any] = [
    None,
    True,
    "x",
    [],
    {},
    [[]],
    {"cell": "x"},
    {"cell": [1, [2]]},
    -1,
    1e999,
    float("nan"),
    [None],
    ["a", 1],
]


@pytest.mark.parametrize("value", ODD, ids=str)
def test_a_value_of_any_kind_in_any_place_is_survived(value: object, tmp_path: Path) -> None:
    folder = make_run(tmp_path, epochs=2)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    odd = [{key: value if key not in ("epoch", "learner") else known for key, known in row.items()} for row in rows]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    for file in ("result.json", "facts.json", "gallery.json"):
        plain = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(dict.fromkeys(plain, value)))
    (folder / "times.jsonl").write_text(json.dumps({"step": value, "seconds": value, "peak_memory_mb": value}) + "\n")
    assert "<main>" in page([read_one_run(folder)])
    assert "<main>" in page([read_one_run(folder), read_one_run(folder)])


def test_entries_of_a_gallery_of_any_kind_are_survived(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    good = json.loads((folder / "gallery.json").read_text())["images"][0]
    entries = [value if key is None else {**good, key: value} for key in (None, *good) for value in ODD]
    for start in range(0, len(entries), 24):
        (folder / "gallery.json").write_text(json.dumps({"images": entries[start : start + 24]}))
        assert "<main>" in page([read_one_run(folder)])


@pytest.mark.parametrize("file", ["facts.json", "times.jsonl", "gallery.json", "metrics.jsonl", "genotype.json"])
def test_a_file_that_is_not_there_is_told_of(file: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    assert read_one_run(folder).missing == []
    (folder / file).unlink()
    run = read_one_run(folder)
    assert run.missing == [file]
    made = page([run])
    assert f"Not in this folder: {file}; what it tells is left out." in made
    assert "No warnings." not in made


def test_a_result_is_believed_without_its_metrics(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    result["group"][1]["validation_loss"] = 0.25
    (folder / "result.json").write_text(json.dumps({**result, "retained": 1}))
    (folder / "metrics.jsonl").unlink()
    run = read_one_run(folder)
    assert (run.retained, run.learners) == (1, [0, 1])
    made = page([run])
    assert "2 learners: darts · space nas-bench-201" in made
    assert "Cell of learner 1" in made
    assert "nobody" not in made


def test_a_result_that_contradicts_itself_explains_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    for group in ([{"validation_loss": "x"}] * 2, [{"validation_loss": 2.0}, {"validation_loss": 1.0}], 3):
        (folder / "result.json").write_text(json.dumps({**result, "group": group}))
        assert "Why this learner" not in page([read_one_run(folder)])


@pytest.mark.parametrize(
    ("rule", "learner", "whose"), [("consensus", None, "consensus"), ("derived-error", 1, "learner 1")]
)
def test_a_page_names_the_rule_by_which_the_group_answers(
    tmp_path: Path, rule: str, learner: int | None, whose: str
) -> None:
    folder = make_run(tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    answer = {"rule": rule, "learner": learner, "sentence": "this cell was the best one"}
    (folder / "result.json").write_text(json.dumps({**result, "answer": answer, "genotype": CELLS[0]}))
    run = read_one_run(folder)
    assert (run.rule, run.answering, run.whose, run.retained) == (rule, learner, whose, 0)
    assert run.cell is not None
    assert to_plain(run.cell) == CELLS[0]
    made = page([run])
    assert f"by {rule}: {ANSWERS[run.rule]}" in made.replace("&#x27;", "'").replace("&#39;", "'")
    assert "Why this cell: " in made
    assert "this cell was the best one." in made
    assert "of W in the mixed network of learner 0" in made
    assert "Why this learner" not in made


@pytest.mark.parametrize("answer", [None, 3, {}, {"rule": "vote", "learner": "me"}, {"rule": ["consensus"]}])
def test_an_answer_that_cannot_be_read_is_that_of_the_retained_learner(tmp_path: Path, answer: object) -> None:
    folder = make_run(tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "answer": answer}))
    run = read_one_run(folder)
    assert (run.rule, run.answering) == ("retained", 0)
    assert "Why this learner" in page([run])


def test_a_run_that_goes_on_says_why_and_what_it_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path, finished=False, config={"lambda": 0.5})
    made = page([read_one_run(folder)])
    assert "it has the lowest validation loss of W after epoch 4 (" in made
    assert "learner 0 0.5000" in made
    assert "learner 0, so far" in page([read_one_run(folder), read_one_run(folder)])
    for file in ("metrics.jsonl", "facts.json", "gallery.json", "times.jsonl"):
        (folder / file).unlink()
    with locked(folder):
        run = read_one_run(folder)
        made = page([run])
    assert run.missing == []
    assert "digits · 2 learners: darts · space nas-bench-201 · lambda 0.5 · seed 0" in made


def test_numbers_are_numbers() -> None:
    assert [finite(value) for value in (1, 2.5, True, "3", None, float("inf"), 10**400)] == [1.0, 2.5, *[None] * 5]


def test_scores_of_removed_operations(tmp_path: Path) -> None:
    folder = make_run(tmp_path, epochs=1, learners=1)
    row = json.loads((folder / "metrics.jsonl").read_text())
    row["scores"]["cell"][0][0] = None
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    table = table_at(read_run(folder).rows[0], "cell")
    assert table is not None
    assert table[0][0] is None


def test_warnings_are_told_once_with_their_line(tmp_path: Path) -> None:
    folder = make_run(tmp_path, epochs=3, learners=1)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows[1:]:
        row["warnings"] = {"skips": "too many"}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert warnings_of(read_run(folder)) == [
        "learner 0, from epoch 2 on (metrics.jsonl line 2): too many",
    ]


def test_what_a_method_does_on_its_way_is_no_warning(tmp_path: Path) -> None:
    folder = make_run(tmp_path, epochs=3, learners=1)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[1]["rebuilt"], rows[2]["ended"] = "stage 2", "enough"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_one_run(folder)
    assert events_of(run) == [
        "learner 0, epoch 2 (metrics.jsonl line 2), rebuilt: stage 2",
        "learner 0, epoch 3 (metrics.jsonl line 3), ended: enough",
    ]
    made = page([run])
    assert "No warnings." in made
    assert "<h3>What happened on the way</h3>" in made


def test_folders_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [make_run(tmp_path / name, epochs=1) for name in ("A/x/seed-1", "B/x/seed-1", "B/x/seed-2")]
    assert [run.name for run in read_runs(folders)] == ["A/x/seed-1", "B/x/seed-1", "seed-2"]
    assert [run.name for run in read_runs(folders[1:])] == ["seed-1", "seed-2"]
    assert [run.name for run in read_runs(folders[:1] * 2)] == ["seed-1"] * 2
    monkeypatch.chdir(folders[0])
    assert [run.name for run in read_runs([Path(), folders[1]])] == ["A/x/seed-1", "B/x/seed-1"]
    assert '<th scope="col">B/x/seed-1</th>' in page(read_runs(folders))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match=r"a run is a folder with config\.yaml and metrics\.jsonl, but .* neither"):
            read_runs([folder])
    with pytest.raises(ValueError, match="at least one run"):
        read_runs([])
