"""Where a run's time went, and where the run comes from: config, versions, machine, warnings."""

import json
from collections.abc import Mapping

from smallgroup.report import palette
from smallgroup.report.compare import flattened
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, at, finite, section_at
from smallgroup.report.words import duration

PARTS = {
    "stage 1": "stage 1: V learns",
    "stage 2": "stage 2: labels, and W learns",
    "stage 3": "stage 3: the architecture",
    "steps": "steps",
    "evaluation": "looks at the end of epochs",
    "rest": "reading, saving, the rest",
}


def seconds_by_part(run: Run) -> dict[str, float]:
    """Return the seconds of each part, summed over the lines of times.jsonl."""
    totals: dict[str, float] = {}
    for line in run.times:
        for name, value in section_at(line, "seconds").items():
            seconds = finite(value)
            if seconds is not None and seconds >= 0 and name in PARTS:
                totals[name] = totals.get(name, 0.0) + seconds
    return {name: totals[name] for name in PARTS if name in totals}


def time_section(run: Run, prefix: str) -> Markup | None:
    """Return the section on time by stage and peak memory."""
    totals = seconds_by_part(run)
    whole = sum(totals.values())
    if whole <= 0:
        return None
    parts, before = [], 0.0
    for place, (name, seconds) in enumerate(totals.items()):
        share = 100 * seconds / whole
        parts.append(
            {
                "title": PARTS[name],
                "time": duration(seconds),
                "share": share,
                "words": f"{share:.1f} %",
                "before": before,
                "series": palette.series(place),
                "color": palette.paint(palette.series(place), standalone=False),
                "source": f"{run.front}times.jsonl: seconds[{name}], summed",
            }
        )
        before += share
    memory, file = run.peak_memory
    peak = None if memory is None else f"{memory:,.0f} MB ({run.front}{file}: peak_memory_mb)"
    return render("time.html", anchor=f"{prefix}time", parts=parts, peak=peak)


def config_section(run: Run, prefix: str) -> Markup:
    """Draw the resolved config, its differences from the recipe, versions, hardware, seeds and warnings."""
    config, departures = run.given.config, flattened(run.given.departures) if run.given.departures else {}
    usual = flattened(run.given.recipe)
    return render(
        "config.html",
        anchor=f"{prefix}config",
        recipe=str(config.get("recipe") or ""),
        departures=[
            (key, _plain(value), _plain(usual[key]) if key in usual else "") for key, value in departures.items()
        ],
        origins=_origins(run),
        warnings=warnings_of(run),
        events=events_of(run),
        config="\n".join(f"{key}: {_plain(value)}" for key, value in flattened(config).items()) if config else "",
    )


def _origins(run: Run) -> list[tuple[str, str, str]]:
    found = [
        ("folder", str(run.folder), "the command"),
        ("seed", str(run.given.config.get("seed", "not known")), "config.yaml: seed"),
    ]
    for name, value in _entries(run.facts, "versions"):
        found.append((name, value, f"facts.json: versions.{name}"))
    for name, value in _entries({"environment": run.given.environment}, "environment"):
        if name != "torch":
            found.append((name, value, f"config.yaml: environment.{name}"))
    for name, value in _entries(run.facts, "machine"):
        found.append((name, value, f"facts.json: machine.{name}"))
    for name, value in _entries(run.facts, "images"):
        found.append((f"images: {name}", value, f"facts.json: images.{name}"))
    notes = at(run.facts, "notes")
    found += [("note on the data", str(note), "facts.json: notes") for note in notes] if isinstance(notes, list) else []
    return found


def _entries(document: Mapping[str, object], key: str) -> list[tuple[str, str]]:
    part = document.get(key)
    return [(str(name), str(value)) for name, value in part.items()] if isinstance(part, Mapping) else []


def warnings_of(run: Run) -> list[str]:
    """Return the warnings of the run, each once with its time, and what could not be read."""
    first: dict[tuple[int, str], str] = {}
    for row in run.rows:
        for sign, sentence in section_at(row.values, "warnings").items():
            words = f"learner {row.learner}, from epoch {row.epoch} on (metrics.jsonl line {row.line}): {sentence}"
            first.setdefault((row.learner, str(sign)), words)
    return [*run.problems, *missing_of(run), *first.values()]


def events_of(run: Run) -> list[str]:
    """Return expected events of a method: rebuilt networks, epochs taken back, searches that it ended."""
    found = []
    for row in sorted((*run.rows, *run.taken_back), key=lambda row: row.line):
        where = f"learner {row.learner}, epoch {row.epoch} (metrics.jsonl line {row.line})"
        for event, words in (("ended", "ended"), ("rebuilt", "rebuilt"), ("rolled_back", "rolled back")):
            if row.values.get(event):
                found.append(f"{where}, {words}: {row.values[event]}")
    return found


def missing_of(run: Run) -> list[str]:
    """Return a sentence on missing files; none if all are there."""
    if not run.missing:
        return []
    tells = "it tells" if len(run.missing) == 1 else "they tell"
    return [f"not in this folder: {', '.join(run.missing)}; what {tells} is left out"]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
