"""The page: one file with everything in it, that asks nobody for anything."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from smallgroup import __version__
from smallgroup.report.answer import answer, captioned, cells_of, contributed
from smallgroup.report.classes import confusion_section, gallery_section, teaching_section
from smallgroup.report.compare import Contribution, contributions, differing_keys, pairs_of, twin_of, weight
from smallgroup.report.curves import final, overlays
from smallgroup.report.markup import Child, Markup, embedded, joined, table, tag
from smallgroup.report.origins import config_section, time_section
from smallgroup.report.palette import variables
from smallgroup.report.run import Run, number_at, section_at
from smallgroup.report.views import Frames, cells_section, chart_figure, curves_section, heat_section
from smallgroup.report.words import STATES, duration, percent, section, sized, sourced, tabs

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
LARGEST = 3_000_000
"""Bytes of a page."""
WHOLE = 4
"""Runs up to which a page of several shows each of them whole."""


def page(runs: Sequence[Run], *, live: bool = False) -> str:
    """The report of a run, or of several side by side."""
    main, data = main_part(runs)
    title = ", ".join(run.name for run in runs[:4]) + (" ..." if len(runs) > 4 else "")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=LIVE_POLICY if live else POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title} - Smallgroup"),
        tag("style", Markup(variables() + _asset("page.css"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the answer", href="#answer", class_="skip"),
        main,
        tag("footer", tag("p", f"Drawn by smallgroup {__version__} from the files of the run.", class_="note")),
        tag("script", embedded(data), type="application/json", id="data"),
        tag("script", Markup(_asset("page.js"))),
        data_live="yes" if live else None,
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def main_part(runs: Sequence[Run]) -> tuple[Markup, dict[str, Any]]:
    """What changes while a run goes on: the main element, and the data that belongs to it."""
    frames = Frames()
    pairs = pairs_of(runs)
    if len(runs) == 1:
        inner = [header(runs[0]), *run_sections(runs[0], frames, "", None, ())]
    else:
        inner = [several_header(runs), comparison(runs), *_group(runs), *_overlays(runs), *_cells(runs)]
        if len(runs) <= WHOLE:
            panels = []
            for place, run in enumerate(runs):
                mine = [pair for pair in pairs if pair.taught is run]
                parts = run_sections(run, frames, f"r{place}-", twin_of(run, pairs), contributions(mine))
                panels.append((run.name, joined([header(run, "h3"), *parts])))
            inner.append(section("runs", "Each run", tabs("runs", panels, "run")))
    return tag("main", *inner), frames.data()


def run_sections(
    run: Run, frames: Frames, prefix: str, twin: Run | None, gained: Sequence[Contribution]
) -> list[Child]:
    """Everything about one run, links to its parts first; `prefix` keeps its anchors apart from those of others."""
    search = run.kind == "search"
    parts: list[tuple[str, str, Child]] = [
        ("Answer", "answer", answer(run, prefix, gained)),
        ("Cells", "cells", cells_section(run, frames, prefix) if search else None),
        ("Teaching", "teaching", teaching_section(run, twin, prefix)),
        ("Images", "gallery", gallery_section(run, prefix)),
        ("Curves", "curves", curves_section(run, prefix)),
        ("Weights", "weights", heat_section(run, frames, prefix) if search else None),
        ("Classes", "classes", confusion_section(run, prefix)),
    ]
    for name, part in run.parts.items():
        own, title = f"{prefix}{name}-", {"training": "Training", "random": "Random cell"}.get(name, name)
        inner = [curves_section(part, own), confusion_section(part, own), time_section(part, own)]
        body = tag("details", tag("summary", f"{title}: curves, classes, time"), *inner)
        parts.append((title, name, section(f"{prefix}{name}", title, body)))
    parts += [("Time", "time", time_section(run, prefix)), ("Config", "config", config_section(run, prefix))]
    kept = [(title, anchor, part) for title, anchor, part in parts if part is not None]
    links = [tag("li", tag("a", title, href=f"#{prefix}{anchor}")) for title, anchor, _ in kept]
    nav = tag("nav", tag("ul", *links), aria_label=f"parts of {run.name}", class_="inner" if prefix else None)
    return [nav, *(part for _, _, part in kept)]


def header(run: Run, level: str = "h1") -> Markup:
    """What the run is, in two lines."""
    config = run.given.config
    words = [str(run.result.get("dataset") or run.facts.get("dataset") or "")]
    if run.kind == "search":
        methods = dict.fromkeys(run.method(k) for k in run.learners)
        words.append(f"{len(run.learners)} learner{'s' * (len(run.learners) != 1)}: {', '.join(filter(None, methods))}")
        words.append("space " + ", ".join(dict.fromkeys(filter(None, (run.space(k) for k in run.learners)))))
        if len(run.learners) > 1 and weight(run) is not None:
            words.append(f"lambda {weight(run):g}")
    else:
        words.append("training from scratch")
    if "seed" in config:
        words.append(f"seed {config['seed']}")
    badge = tag("span", STATES[run.state], class_=f"state {run.state}")
    line = tag("p", " · ".join(filter(None, words)), class_="lead")
    return tag("header", tag(level, run.name, " ", badge), line)


def several_header(runs: Sequence[Run]) -> Markup:
    """Of a page on several runs."""
    return tag("header", tag("h1", f"{len(runs)} runs"), tag("p", ", ".join(run.name for run in runs), class_="lead"))


def comparison(runs: Sequence[Run]) -> Markup:
    """The runs in a table, and the keys of their configs that differ."""
    measures: list[tuple[str, Any]] = [
        ("state", lambda run: STATES[run.state]),
        ("learners", lambda run: str(len(run.learners))),
        ("lambda", lambda run: "" if weight(run) is None or run.kind != "search" else f"{weight(run):g}"),
        ("retained", lambda run: "" if run.kind != "search" or run.retained is None else f"learner {run.retained}"),
        ("validation error", lambda run: _known(final(run, "validation_error"), percent)),
        ("validation loss, nats", lambda run: _known(final(run, "validation_loss"), lambda v: f"{v:.4f}")),
        ("test error", lambda run: _known(final(run.parts.get("training", run), "test_error"), percent)),
        ("parameters", lambda run: _known(_parameters(run), sized)),
        ("multiply-adds", lambda run: _known(_multiply_adds(run), sized)),
        ("time", lambda run: _known(final(run, "seconds"), duration)),
        ("peak memory, MB", lambda run: _known(final(run, "peak_memory_mb"), lambda v: f"{v:,.0f}")),
    ]
    columns = sorted({str(c) for run in runs for c in section_at(run.result, "true_accuracy")})
    measures += [(f"true accuracy {column}", _accuracy(column)) for column in columns]
    rows = []
    for title, measure in measures:
        values = [measure(run) for run in runs]
        if any(values):
            cells = [
                tag("td", sourced(value, f"{run.name}/result.json")) for value, run in zip(values, runs, strict=True)
            ]
            rows.append(tag("tr", tag("th", title, scope="row"), *cells))
    names = ["", *(run.name for run in runs)]
    parts: list[Child] = [table(names, rows, "Results of the runs", class_="compared")]
    keys = differing_keys(runs)
    if keys:
        body = [
            tag("tr", tag("th", key, scope="row"), *(tag("td", str(v)) for v in values)) for key, values in keys.items()
        ]
        parts.append(table(names, body, "Keys of their configs that differ", class_="compared"))
    return section("answer", "Side by side", *parts)


def _accuracy(column: str) -> Any:  # noqa: ANN401
    return lambda run: _known(number_at(run.result, "true_accuracy", column), percent)


def _known(value: float | None, write: Any) -> str:  # noqa: ANN401
    return "" if value is None else str(write(value))


def _parameters(run: Run) -> float | None:
    trained = (
        final(run.parts.get("training", run), "parameters")
        if "training" in run.parts or run.kind == "training"
        else None
    )
    return trained if trained is not None or run.given.size is None else run.given.size.parameters


def _multiply_adds(run: Run) -> float | None:
    trained = final(run.parts.get("training", run), "multiply_adds")
    return trained if trained is not None or run.given.size is None else run.given.size.multiply_adds


def _group(runs: Sequence[Run]) -> list[Child]:
    """What teaching changed, over all pairs that are there."""
    pairs = pairs_of(runs)
    told = contributed(contributions(pairs))
    if told is None:
        return []
    names = "; ".join(f"{pair.taught.name} against {pair.alone.name}" for pair in pairs)
    return [
        section("group", "What the group contributed", tag("p", f"Pairs that differ in lambda alone: {names}."), told)
    ]


def _overlays(runs: Sequence[Run]) -> list[Child]:
    charts = overlays(runs)
    if not charts:
        return []
    figures = [chart_figure(chart, "o-") for chart in charts]
    return [section("overlay", "Overlay", tag("div", *figures, class_="grid"), about="Legends switch runs off and on.")]


def _cells(runs: Sequence[Run]) -> list[Child]:
    figures = [
        tag("div", tag("h3", run.name), *(captioned(drawing) for drawing in cells_of(run)), class_="stack")
        for run in runs
        if run.cell is not None
    ]
    return [section("found", "Cells found", tag("div", *figures, class_="grid"))] if figures else []


@cache
def _asset(name: str) -> str:
    return files("smallgroup.report").joinpath(name).read_text(encoding="utf-8")
