"""What a page says of several runs together."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from smallgroup.report.answer import captioned, contributed
from smallgroup.report.compare import SeedPairs, differing_keys, pairs_of, settings_of, weight
from smallgroup.report.curves import final, overlays
from smallgroup.report.detail import Detail
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, finite, number_at, section_at
from smallgroup.report.verdict import OpeningVerdict, of_teaching
from smallgroup.report.views import chart_figure
from smallgroup.report.words import STATES, duration, percent, sized
from smallgroup.spaces.ground_truth import accuracy_on, caveat_of

SIDE_BY_SIDE = 4
"""Runs up to which each has a column of its own; more are rows of a leaderboard."""
MOST_KEYS = 8
"""Keys of configs that are columns of a leaderboard."""
RANKED = ("test error", "validation error")
"""What a leaderboard is sorted by at first: the first of them that it has; runs without it by the second."""
WEIGHT = "config.yaml: search.lambda"
_METHODS = "methods of the learners"
"""What the key `learners` is called beside the column with their number."""


def side_by_side(runs: Sequence[Run], detail: Detail) -> list[Markup]:
    """Draw the table, the contribution of the group, the curves and the cells of all runs."""
    return [several_header(runs), comparison(runs), *_group(runs), *_overlays(runs, detail), *_cells(runs)]


def several_header(runs: Sequence[Run]) -> Markup:
    """Draw the title of a page on several runs."""
    return render("several_header.html", names=[run.name for run in runs])


@dataclass(frozen=True)
class RunMeasure:
    """A column of a table of runs: its text, its sort key and its source; an empty text is unknown."""

    words: str
    source: str
    value: float | str | None = None
    """What it is sorted by, where that is not the words."""

    @property
    def key(self) -> float | str:
        """Return the key that the page's script sorts a field by."""
        return self.words if self.value is None else repr(self.value)


RunField = Callable[[Run], RunMeasure]


def comparison(runs: Sequence[Run]) -> Markup:
    """Draw the runs in a table, and the config keys in which they differ; many runs become a leaderboard."""
    rows = []
    for title, measure in _measures(runs):
        fields = [replace(found, source=f"{run.name}/{found.source}") for run in runs if (found := measure(run))]
        if any(field.words for field in fields):
            rows.append((title, fields))
    keys = {key: [_in_words(key, value) for value in values] for key, values in differing_keys(runs).items()}
    opening = of_teaching(runs)
    if len(runs) > SIDE_BY_SIDE:
        return leaderboard(runs, rows, keys, opening)
    head = ["", *(run.name for run in runs)]
    return render("side_by_side.html", head=head, rows=rows, keys=keys, opening=opening)


def leaderboard(
    runs: Sequence[Run],
    measures: Sequence[tuple[str, Sequence[RunMeasure]]],
    keys: Mapping[str, Sequence[object]],
    opening: Sequence[OpeningVerdict],
) -> Markup:
    """Draw a row per run, the best first; a script sorts by any column and filters."""
    keys = {_METHODS if key == "learners" else key: values for key, values in keys.items() if key != "search.lambda"}
    shown = list(keys.items())[:MOST_KEYS]
    columns = [
        *sorted(measures, key=lambda one: RANKED.index(one[0]) if one[0] in RANKED else len(RANKED)),
        *((key, [RunMeasure(str(value), "config.yaml", finite(value)) for value in values]) for key, values in shown),
    ]
    titles = [title for title, _ in columns]
    by = next((title for title in RANKED if title in titles), None)
    order = list(range(len(runs)))
    for title in reversed(RANKED):  # sorting is stable, so the last one counts first
        if title in titles:
            fields = columns[titles.index(title)][1]
            values = [field.value if isinstance(field.value, float) else math.inf for field in fields]
            order.sort(key=values.__getitem__)
    rows = [(runs[place].name, [fields[place] for _, fields in columns]) for place in order]
    left_out = [key for key in keys if key not in titles]
    return render("leaderboard.html", titles=titles, rows=rows, by=by, left_out=left_out, opening=opening)


def _in_words(key: str, value: object) -> object:
    """Return the value of a key; of a list of learners their methods, once if all are alike."""
    if key != "learners" or not isinstance(value, list):
        return value
    each = [
        " ".join([str(one.get("method")), *(str(one[name]) for name in ("options", "space") if one.get(name))])
        if isinstance(one, Mapping)
        else str(one)
        for one in value
    ]
    return f"{len(each)} {each[0]}" if len(set(each)) == 1 else ", ".join(each)


def _measures(runs: Sequence[Run]) -> list[tuple[str, RunField]]:
    measures: list[tuple[str, RunField]] = [
        ("state", lambda run: RunMeasure(STATES[run.state], "result.json, and whether a process holds .lock")),
        ("learners", lambda run: RunMeasure(str(len(run.learners)), "metrics.jsonl: learner")),
        ("lambda", lambda run: _known(weight(run) if run.kind == "search" else None, "{:g}".format, WEIGHT)),
        ("retained", _retained),
        ("answer", _answer),
        ("validation error", _result("validation_error", percent)),
        ("validation loss, nats", _result("validation_loss", "{:.4f}".format)),
        ("test error", _result("test_error", percent, trained=True)),
        ("parameters, as trained", _result("parameters", sized, trained=True)),
        ("multiply-adds, as trained", _result("multiply_adds", sized, trained=True)),
        ("parameters, as the config would train it", _counted("parameters")),
        ("multiply-adds, as the config would train it", _counted("multiply_adds")),
        ("time", _result("seconds", duration)),
        ("peak memory, MB", _memory),
    ]
    columns = sorted({str(c) for run in runs for c in section_at(run.result, "true_accuracy")})
    return measures + [(_accuracy_title(column), _accuracy(column)) for column in columns]


def _known(value: float | None, write: Callable[[float], str], source: str) -> RunMeasure:
    return RunMeasure("" if value is None else write(value), source, value)


def _retained(run: Run) -> RunMeasure:
    known = run.kind == "search" and run.retained is not None
    source = "result.json: retained" if run.result else "metrics.jsonl: lowest w_validation_loss of the last epoch"
    return RunMeasure(f"learner {run.retained}{'' if run.result else ', so far'}" if known else "", source)


def _answer(run: Run) -> RunMeasure:
    known = run.kind == "search" and bool(run.result)
    told = run.rule if run.answering is None else f"{run.rule}: {run.whose}"
    return RunMeasure(told if known else "", "result.json: answer")


def _result(key: str, write: Callable[[float], str], *, trained: bool = False) -> RunField:
    """Return a reader of a number of the result; trained ones come from the training within a run or from itself."""

    def measure(run: Run) -> RunMeasure:
        within = run.kind == "search" and trained
        owner = run.parts.get("training") if within else run
        front = "training/" if within else ""
        return _known(None if owner is None else final(owner, key), write, f"{front}result.json: {key}")

    return measure


def _memory(run: Run) -> RunMeasure:
    memory, file = run.peak_memory
    return _known(memory, "{:,.0f}".format, f"{file}: peak_memory_mb")


def _counted(key: str) -> RunField:
    """Return a reader of the size of the network that a search's config trains, whether or not it was trained."""

    def measure(run: Run) -> RunMeasure:
        size = None if run.given.size is None else float(getattr(run.given.size, key))
        return _known(size, sized, "config.yaml: training.network, counted from the cell")

    return measure


def _accuracy_title(column: str) -> str:
    caveat = caveat_of(column)
    return accuracy_on(column) if caveat is None else f"{accuracy_on(column)} ({caveat})"


def _accuracy(column: str) -> RunField:
    return lambda run: _known(
        number_at(run.result, "true_accuracy", column), percent, f"result.json: true_accuracy.{column}"
    )


def _group(runs: Sequence[Run]) -> list[Markup]:
    """Draw what teaching changed, setting by setting: pairs that differ in more than the seed are no repetitions."""
    told = [(_pairs(setting), contributed(setting)) for setting in settings_of(pairs_of(runs))]
    parts = [(words, markup) for words, markup in told if markup is not None]
    return [render("group.html", parts_of=parts)] if parts else []


def _pairs(setting: SeedPairs) -> str:
    """Return the pairs of runs that are compared."""
    pairs = list(setting.pairs.values())
    names = "; ".join(f"{pair.taught.name} against {pair.alone.name}" for pair in pairs)
    again = ", ".join(dict.fromkeys(pair.taught.name for pair in setting.again))
    words = f"Pairs that differ in lambda alone ({weight(pairs[0].taught) or 0:g} and 0): {names}."
    if again:
        words += f" Not counted, because a search with the same config and seed is already included: {again}."
    return words


def _overlays(runs: Sequence[Run], detail: Detail) -> list[Markup]:
    figures = [chart_figure(chart, "o-", detail) for chart in overlays(runs)]
    about = "Legends switch runs off and on."
    return [render("grid.html", anchor="overlay", title="Overlay", about=about, figures=figures)] if figures else []


def _cells(runs: Sequence[Run]) -> list[Markup]:
    found = [(run.name, captioned(run)) for run in runs if run.cell is not None]
    return [render("found.html", found=found)] if found else []
