"""The page: whole, alone, small, traceable, and nobody else's."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from smallgroup.pages import draw_report, read_one_run
from smallgroup.report import page
from smallgroup.report.classes import is_png
from smallgroup.report.curves import charts_of, mean_entropy
from smallgroup.report.page import LARGEST, policy
from smallgroup.report.run import MetricsRow
from smallgroup.runner.lock import locked
from tests.report.makers import add_training, make_run

PAGE = import_module("smallgroup.report.page")
"""The module; the package has the function under its name."""
HOSTILE = (
    "<script>alert('own')</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "' onmouseover='alert(3)",
    "<!-- \u202e\x00 -->&lt;b&gt;",
)


class Seen(HTMLParser):
    """Every element with its attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def drawn(folder: Path, **options: Any) -> str:
    return page([read_one_run(make_run(folder, **options))])


def test_the_answer_comes_first(tmp_path: Path) -> None:
    made = drawn(tmp_path / "my run")
    words = " ".join(Seen(made).words)
    assert made.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    for part in ("learner 0", "12.50 %", "40 s", "321 MB", "lowest loss on all validation images", "0.5000", "0.5100"):
        assert part in words, part
    assert f"smallgroup train '{tmp_path}/my run'" in words  # quoted: it can be copied
    assert f"smallgroup export '{tmp_path}/my run' --format onnx" in words
    order = re.findall(r'<section id="(\w+)"', made)
    assert order == ["answer", "cells", "teaching", "gallery", "curves", "weights", "time", "config"]
    links = re.findall(r'<a href="#(\w+)"', made)
    assert links == ["answer", *order]


def commands(folder: Path) -> list[str]:
    made = page([read_one_run(folder)])
    return [unescape(line).removeprefix("smallgroup ") for line in re.findall(r"<code>(.*?)</code>", made)]


def test_commands_fit_the_folder_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stopped, run, alone = make_run(Path("-dash"), finished=False), make_run(Path("run")), make_run(Path("alone"))
    assert commands(stopped) == ["search --out ./-dash --resume"]
    with locked(stopped):
        assert commands(stopped) == ["watch ./-dash"]
    assert commands(run) == ["train run", "export run --format onnx"]
    training = add_training(run)
    assert commands(run) == ["export run --format onnx", "predict run IMAGE"]
    assert commands(training) == ["export run/training --format onnx", "predict run/training IMAGE"]
    for file in ("model.json", "result.json"):
        (training / file).unlink()
    assert commands(run) == ["train run --resume"]
    assert commands(training) == ["train run/training/genotype.json --out run/training --resume"]
    (alone / "genotype.json").unlink()
    assert commands(alone) == []
    note = "To be typed in the folder in which this page was drawn."
    assert note in page([read_one_run(run)])
    assert note not in page([read_one_run(run.absolute())])


def test_the_page_asks_nobody(tmp_path: Path) -> None:
    seen = Seen(drawn(tmp_path))
    for name, attributes in seen.elements:
        assert name not in ("link", "iframe", "object", "embed", "base", "form")
        for key in ("src", "href", "xlink:href"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (name, value)
    policies = [a["content"] for n, a in seen.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [policy(live=False)]
    assert "unsafe" not in str(policies)
    assert [n for n, a in seen.elements if "style" in a or any(key.startswith("on") for key in a)] == []
    assert [a for n, a in seen.elements if n == "script"] == [{"type": "application/json", "id": "data"}, {}]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_untrusted_names_are_words(hostile: str, tmp_path: Path) -> None:
    plain = Seen(drawn(tmp_path / "plain", names=("a", "b", "c")))
    folder = make_run(
        tmp_path / hostile.replace("/", "|").replace("\x00", ""), classes=(hostile, "dog", "owl"), names=(hostile,) * 3
    )
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("data_root: null", f"data_root: {json.dumps(hostile)}"))
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "dataset": hostile, "true_accuracy": {hostile: 1.0}}))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"warnings": {hostile: hostile}, "true_accuracy": {hostile: 5.0}}
        row["edge_entropy"] = {hostile: [0.5]}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = page([read_one_run(folder)])
    seen = Seen(made)
    # The same elements as on a harmless page, but for what has other names: no element or attribute is theirs.
    count = [name for name, _ in seen.elements if name in ("script", "img", "b")]
    assert count == [name for name, _ in plain.elements if name in ("script", "img", "b")]
    assert not any(key.startswith("on") for _, attributes in seen.elements for key in attributes)
    visible = hostile.replace("\u202e", r"\u202e").replace("\x00", r"\x00")
    assert any(visible in words for words in seen.words)
    assert "\x00" not in made


def test_every_number_of_a_chart_is_that_of_its_line(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    made = page([read_one_run(folder)])
    found = re.findall(r'<td title="metrics\.jsonl line (\d+): ([^"]+)" data-line="(\d+)">([^<]*)</td>', made)
    assert len(found) > 120
    for line, source, again, words in found:
        assert line == again
        row = lines[int(line) - 1]
        if source == "derived_error - w_error":
            value = row["derived_error"] - row["w_error"]
        elif source.startswith("edge_entropy.cell"):
            value = sum(row["edge_entropy"]["cell"]) / 6
        else:
            value = row
            for key in source.split("."):
                value = value[key]
        if words == "0":
            assert value == 0
        assert float(words) == pytest.approx(value, rel=5.1e-6), (line, source)


def test_numbers_of_a_training_name_its_folder(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    within = add_training(folder)
    line = {"step": 1, "seconds": {"steps": 5.0}, "peak_memory_mb": 9.0}
    (within / "times.jsonl").write_text(json.dumps(line) + "\n")
    made = page([read_one_run(folder)])
    part = " ".join(re.findall(r'<section id="training.*?</section>', made, re.DOTALL))
    titles = [title for title in re.findall(r'title="([^"]*)"', part) if ".json" in title]
    assert "training/metrics.jsonl line 1: train_error" in titles
    assert "from training/result.json: confusion[19][0]" in titles
    assert "from training/times.jsonl: seconds[steps], summed" in titles
    assert [title for title in titles if not re.search(r"(^|from )training/\w+\.json", title)] == []
    assert "Keys of training/metrics.jsonl: train_error." in part
    alone = page([read_one_run(within)])
    assert 'title="metrics.jsonl line 1: train_error"' in alone
    assert "training/" not in " ".join(re.findall(r'title="([^"]*)"', alone))


def test_numbers_of_an_overlay_name_their_run(tmp_path: Path) -> None:
    runs = [read_one_run(make_run(tmp_path / name)) for name in ("one", "two")]
    (part,) = re.findall(r'<section id="overlay".*?</section>', page(runs), re.DOTALL)
    assert {title.partition(" ")[0] for title in re.findall(r'td title="([^"]*)"', part)} == {
        "one/metrics.jsonl",
        "two/metrics.jsonl",
    }
    assert "Keys of the metrics.jsonl of each run: w_error." in part


@pytest.mark.parametrize(("last", "said", "file"), [(300.0, "321", "result.json"), (345.0, "345", "times.jsonl")])
def test_there_is_one_peak_of_memory(last: float, said: str, file: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    line = {"step": 40, "seconds": {"stage 1": 1.0}, "peak_memory_mb": last}
    (folder / "times.jsonl").write_text(json.dumps(line) + "\n")
    made = page([read_one_run(folder)])
    told = re.findall(r'<dt>Memory</dt><dd><span title="from ([^"]*)" [^>]*>([^<]*)<', made)
    assert told == [(f"{file}: peak_memory_mb", f"{said} MB")]
    assert f"Memory of the process at its peak: {said} MB ({file}: peak_memory_mb)." in made
    assert set(re.findall(r"(\d+) MB", made)) == {said}
    source = f'data-source="{tmp_path.name}/{file}: peak_memory_mb">{said}<'
    assert page([read_one_run(folder)] * 2).count(source) == 2


def test_the_entropy_of_a_cell_is_the_mean_of_its_edges() -> None:
    row = MetricsRow(1, {"edge_entropy": {"cell": [0.25, 0.5, 0.9]}})
    assert mean_entropy("cell")(row) == pytest.approx(0.55)
    assert mean_entropy("normal")(row) is None


def test_terms_that_are_nothing_are_told_of_and_not_drawn(tmp_path: Path) -> None:
    folder = make_run(tmp_path, config={"hypergradient": "first-order"})
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"norm_own": 0.0, "norm_cross": 0.0, "norm_label": 0.0}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = page([read_one_run(folder)])
    assert "Always 0 and therefore not drawn: own, cross, label (first-order takes the direct term alone)." in made
    (chart,) = [one for one in charts_of(read_one_run(folder)) if one.key == "terms-0"]
    assert [one.name for one in chart.series] == ["direct"]


def test_a_long_search_of_many_classes_stays_small(tmp_path: Path) -> None:
    classes = tuple(f"class number {c}" for c in range(100))
    made = drawn(tmp_path, epochs=100, learners=4, classes=classes)
    assert len(made.encode()) < LARGEST
    assert "metrics.jsonl has 80 more" in made


def test_four_runs_of_many_learners_stay_small_and_the_page_says_what_it_leaves_out(tmp_path: Path) -> None:
    one = read_one_run(make_run(tmp_path, epochs=46, learners=8))
    runs = [replace(one, folder=tmp_path / f"run-{place}") for place in range(4)]
    made = page(runs)
    assert 1_000_000 < len(made.encode()) <= LARGEST
    words = " ".join(Seen(made).words)
    assert "To stay below 3 MB, this page shows less: sliders go through about 24 epochs" in words
    assert {len(one.split(",")) for one in re.findall(r'data-epochs="([\d,]+)"', made)} == {24}


def test_panels_go_when_nothing_else_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = read_one_run(make_run(tmp_path))
    runs = [replace(one, folder=tmp_path / name) for name in ("first", "second", "third")]
    whole = page(runs)
    assert "this page shows less" not in whole
    monkeypatch.setattr(PAGE, "LARGEST", len(whole.encode()) - 150_000)
    made = page(runs)
    assert 'id="r0-answer"' in made
    assert 'id="r2-answer"' not in made
    assert set(json.loads(re.findall(r'id="data">(.*?)</script>', made)[0])["cells"]) == {"r0-0-cell", "r0-1-cell"}
    assert "second, third are not shown whole; smallgroup report with one folder draws it" in made
    monkeypatch.setattr(PAGE, "LARGEST", 1)
    assert "no run is shown whole" in page(runs)


def test_the_same_folder_gives_the_same_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    one = draw_report(folder).read_bytes()
    assert draw_report(folder).read_bytes() == one
    assert draw_report(folder, out=tmp_path / "other.html").read_bytes() == one


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    folder = make_run(tmp_path, finished=False)
    for file in ("metrics.jsonl", "facts.json", "gallery.json", "times.jsonl"):
        (folder / file).unlink()
    made = page([read_one_run(folder)])
    assert "not finished" in made
    assert "not known yet" in made


def test_several_runs_side_by_side(tmp_path: Path) -> None:
    first = make_run(tmp_path / "taught")
    second = make_run(tmp_path / "alone", config={"lambda": 0}, error=14.75)
    made = page([read_one_run(first), read_one_run(second)])
    words = " ".join(Seen(made).words)
    for part in (
        "Side by side",
        "search.lambda",
        "What the group contributed",
        "taught against alone",
        "−2.250 points (better)",
    ):
        assert part in words, part
    assert "One seed each: a difference of this size may be chance." in words
    ids = [a["id"] for _, a in Seen(made).elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {"overlay", "found", "runs", "r0-answer", "r1-answer"} <= set(ids)


def test_a_row_of_the_comparison_counts_one_thing_and_each_field_names_its_key(tmp_path: Path) -> None:
    trained, not_trained = make_run(tmp_path / "trained", config={"lambda": 0.5}), make_run(tmp_path / "untrained")
    add_training(trained)
    made = page([read_one_run(trained), read_one_run(not_trained)])
    compared = made[made.index("Results of the runs") :].partition("</table>")[0]
    rows = {
        title: re.findall(r"<td>(?:<span title=\"from ([^\"]*)\"[^>]*>([^<]*)</span>)?</td>", fields)
        for title, fields in re.findall(r'<th scope="row">([^<]*)</th>(.*?)</tr>', compared)
    }
    assert rows["parameters, as trained"] == [("trained/training/result.json: parameters", "14.1 k"), ("", "")]
    one, other = rows["parameters, as the config would train it"]
    assert one[1] == other[1] != ""
    assert other[0] == "untrained/config.yaml: training.network, counted from the cell"
    assert rows["test error"] == [("trained/training/result.json: test_error", "7.50 %"), ("", "")]
    assert rows["validation error"][1] == ("untrained/result.json: validation_error", "12.50 %")
    assert rows["lambda"][0] == ("trained/config.yaml: search.lambda", "0.5")
    assert rows["retained"][0] == ("trained/result.json: retained", "learner 0")
    assert rows["answer"][0] == ("trained/result.json: answer", "retained: learner 0")
    for title, fields in rows.items():
        assert all(": " in source or title == "state" for source, words in fields if words), title


def test_many_runs_are_compared_without_each_of_them_whole(tmp_path: Path) -> None:
    runs = [read_one_run(make_run(tmp_path / f"run-{seed}", config={"seed": seed})) for seed in range(6)]
    made = page(runs)
    assert 'id="runs"' not in made
    assert all(f">run-{seed}</th>" in made for seed in range(6))
    assert "With more than 4 runs, this page shows less: no run is shown whole" in made


def test_pictures_are_pictures() -> None:
    assert not is_png("x")
    assert not is_png('iVBORw0KGgo" onerror="alert(1)')
    assert not is_png(None)
    assert not is_png("iVBORw0KGgo=" * 10_000)


def test_epochs_that_slider_and_heat_map_leave_out_are_told_of_and_folders_are_made(tmp_path: Path) -> None:
    place = draw_report(make_run(tmp_path / "run", epochs=90), out=tmp_path / "new" / "it.html")
    text = place.read_text()
    slider = re.search(r'data-epochs="([^"]*)"', text)
    assert slider
    left = 90 - len(slider[1].split(","))
    assert left > 0
    assert text.count(f"{left} of 90 epochs are left out here; metrics.jsonl has all.") == 2
    assert "are left out here; metrics.jsonl" not in draw_report(make_run(tmp_path / "short")).read_text()


def test_a_true_accuracy_stands_beside_its_percentiles(tmp_path: Path) -> None:
    made = page([read_one_run(make_run(tmp_path / "run"))])
    assert "better than 70.0 % of all cells and than 55.0 % of those of the same cost" in made


def test_a_prediction_says_how_far_it_is_to_be_believed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    numbers = {"true_accuracy": {"nas-bench-301": 94.9}, "percentile": {"nas-bench-301": 83.0}}
    (folder / "result.json").write_text(json.dumps({**result, **numbers}))
    words = " ".join(Seen(page([read_one_run(folder)])).words)
    assert "Accuracy predicted by nas-bench-301" in words
    assert "better than 83.0 % of 3,000 random cells; a prediction, whose Spearman correlation" in words
    assert "is 0.52; it does not see skips; skip connections in the normal cell: " in words
