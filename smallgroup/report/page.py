"""The page: one file with everything in it, that asks nobody for anything."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any

from smallgroup.report.answer import answer, contributed
from smallgroup.report.classes import confusion_section, gallery_section, mistakes_section, teaching_section
from smallgroup.report.compare import pairs_of, settings_of, twin_of, weight
from smallgroup.report.detail import DETAILS, Detail
from smallgroup.report.markup import Markup, embedded, joined, render
from smallgroup.report.origins import config_section, time_section
from smallgroup.report.palette import shades, variables
from smallgroup.report.play_off import play_off_section
from smallgroup.report.run import BASELINES, Run
from smallgroup.report.side_by_side import side_by_side
from smallgroup.report.trained import training_section
from smallgroup.report.views import Frames, cells_section, curves_section, heat_section
from smallgroup.report.words import STATES
from smallgroup.version import __version__

LARGEST = 3_000_000
"""Most bytes of a page; a longer one shows less."""
GONE = "No more updates: the server has stopped, or the run's folder has moved. This is the run as it was at "
WHOLE = 4
"""Runs up to which a page of several shows each of them whole."""


def policy(*, live: bool) -> str:
    """Return the content security policy of a page: its own style sheet and script by their hashes, and nothing else.

    There is no `unsafe-inline`: a script, an event handler or a style that gets into the page by other ways does not
    run or apply.
    """
    words = [
        "default-src 'none'",
        f"style-src {_hash(_style())}",
        f"script-src {_hash(_asset('page.js'))}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*words, *(["connect-src 'self'"] if live else [])])


def problem_page(problem: str) -> str:
    """Return a page that says why the report cannot be drawn."""
    return str(render("problem.html", problem=problem, policy=policy(live=True), style=_style()))


@dataclass(frozen=True)
class Drawn:
    """A page, and the parts that change during a run: the main element, and the data that belongs to it."""

    text: str
    main: str
    data: dict[str, Any]

    @cached_property
    def size(self) -> int:
        """Return the size of the page in bytes."""
        return len(self.text.encode())


def page(runs: Sequence[Run], *, live: bool = False) -> str:
    """Draw the report of a run, or of several side by side."""
    return drawn(runs, live=live).text


def drawn(runs: Sequence[Run], *, live: bool = False) -> Drawn:
    """Draw a page of at most `LARGEST` bytes: with many epochs, learners and runs it shows less, and says what."""
    size = 0
    for detail in DETAILS:
        if size > 2 * LARGEST and detail != DETAILS[-1]:
            continue  # to draw what is far too large again and again takes long
        shown = _Shown(runs, detail)
        panels = len(shown.panels)
        made = shown.drawn(panels, live=live)
        size = made.size
        if size <= LARGEST:
            return made
    while panels and made.size > LARGEST:
        panels -= 1
        made = shown.drawn(panels, live=live)
    return made


class _Shown:
    """Runs at one level of detail; those of a page of several in panels, of which it may have only the first."""

    def __init__(self, runs: Sequence[Run], detail: Detail) -> None:
        self.runs, self.detail = runs, detail
        self.panels: list[tuple[str, Markup, Frames]] = []
        self.frames = Frames(detail)
        if len(runs) == 1:
            self.top = [header(runs[0]), *run_sections(runs[0], self.frames, "", None, None)]
            return
        self.top = side_by_side(runs, detail)
        pairs = pairs_of(runs)
        for place, run in enumerate(runs if len(runs) <= WHOLE else ()):
            frames, mine = Frames(detail), [pair for pair in pairs if pair.taught is run]
            parts = run_sections(
                run,
                frames,
                f"r{place}-",
                twin_of(run, pairs),
                next((contributed(setting) for setting in settings_of(mine)), None),
            )
            self.panels.append((run.name, joined([header(run, "h3"), *parts]), frames))

    def drawn(self, panels: int, *, live: bool) -> Drawn:
        """Draw the page with the first of its panels."""
        shown = self.panels[:panels]
        each = [(name, markup) for name, markup, _ in shown]
        main = render("main.html", header=self.top[0], left_out=self._left_out(panels), parts=self.top[1:], panels=each)
        merged = Frames(
            self.detail, {k: v for frames in (self.frames, *(one[2] for one in shown)) for k, v in frames.cells.items()}
        )
        data = merged.data()
        return Drawn(str(_whole_page(self.runs, main, data, live=live)), str(main), data)

    def _left_out(self, panels: int) -> str:
        """Return what was left out of the page to keep it small."""
        words = []
        if self.detail != DETAILS[0]:
            fewer = f" and tables of numbers have about {self.detail.rows}" * (self.detail.rows < DETAILS[0].rows)
            words.append(f"sliders go through about {self.detail.frames} epochs{fewer}; metrics.jsonl has all")
        missing = [run.name for run in self.runs[panels:]] if len(self.runs) > 1 else []
        if missing:
            which = "no run is" if not panels else f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not"
            words.append(f"{which} shown whole; smallgroup report with one folder draws it")
        if not words:
            return ""
        why = f"To stay below {LARGEST / 1e6:g} MB" if len(self.runs) <= WHOLE else f"With more than {WHOLE} runs"
        return f"{why}, this page shows less: {'; '.join(words)}."


def _whole_page(runs: Sequence[Run], main: Markup, data: dict[str, Any], *, live: bool) -> Markup:
    title = ", ".join(run.name for run in runs[:4]) + (" ..." if len(runs) > 4 else "")
    return render(
        "page.html",
        title=title,
        policy=policy(live=live),
        style=_style(),
        script=_asset("page.js"),
        main=main,
        data=embedded(data),
        live=live,
        gone=GONE,
        version=__version__,
    )


def run_sections(run: Run, frames: Frames, prefix: str, twin: Run | None, gained: Markup | None) -> list[Markup]:
    """Draw everything about one run, links to its parts first; `prefix` separates its anchors from those of others."""
    search, training = run.kind == "search", run.parts.get("training")
    tested, own = (run, "") if training is None else (training, "training-")
    parts: list[tuple[str, str, Markup | None]] = [
        ("Answer", "answer", answer(run, prefix, gained)),
        ("Training", f"{own}curves", training_section(run, prefix, frames.detail)),
        ("Classes", f"{own}classes", confusion_section(tested, f"{prefix}{own}")),
        ("Mistakes", f"{own}mistakes", mistakes_section(tested, f"{prefix}{own}")),
        ("Play-off", "play-off", play_off_section(run, prefix) if search else None),
        ("Cells", "cells", cells_section(run, frames, prefix) if search else None),
        ("Teaching", "teaching", teaching_section(run, twin, prefix)),
        ("Images", "gallery", gallery_section(run, prefix)),
        ("Curves", "curves", curves_section(run, prefix, frames.detail) if search else None),
        ("Weights", "weights", heat_section(run, frames, prefix) if search else None),
    ]
    for name, part in run.parts.items():
        own, title = f"{prefix}{name}-", {"training": "Time of the training", **BASELINES}.get(name, name)
        inner = [curves_section(part, own, frames.detail), confusion_section(part, own)] if name in BASELINES else []
        inner += [time_section(part, own)]
        words = f"{title}: curves, classes, time" if name in BASELINES else title
        if any(inner):
            body = render("part.html", anchor=f"{prefix}{name}", title=title, words=words, inner=joined(inner))
            parts.append((title, name, body))
    parts += [("Time", "time", time_section(run, prefix)), ("Config", "config", config_section(run, prefix))]
    kept = [(title, anchor, part) for title, anchor, part in parts if part is not None]
    links = [(title, f"{prefix}{anchor}") for title, anchor, _ in kept]
    nav = render("nav.html", links=links, name=run.name, inner=bool(prefix))
    return [nav, *(part for _, _, part in kept)]


def header(run: Run, level: str = "h1") -> Markup:
    """Draw the title of a run, in two lines."""
    config = run.given.config
    words = [run.dataset]
    if run.kind == "search" and run.learners:
        methods = dict.fromkeys(run.method(k) for k in run.learners)
        words.append(f"{len(run.learners)} learner{'s' * (len(run.learners) != 1)}: {', '.join(filter(None, methods))}")
        words.append("space " + ", ".join(dict.fromkeys(filter(None, (run.space(k) for k in run.learners)))))
        if len(run.learners) > 1 and weight(run) is not None:
            words.append(f"lambda {weight(run):g}")
    elif run.kind == "training":
        words.append("training from scratch")
    if "seed" in config:
        words.append(f"seed {config['seed']}")
    state = run.state, STATES[run.state]
    return render("header.html", level=level, name=run.name, state=state, words=" · ".join(filter(None, words)))


@cache
def _style() -> Markup:
    return Markup(variables() + shades()) + _asset("page.css")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> Markup:
    """Return a file of this package, which needs no cleaning."""
    return Markup(files("smallgroup.report").joinpath(name).read_text(encoding="utf-8"))
