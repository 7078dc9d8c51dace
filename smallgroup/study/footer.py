"""What every table carries: what was asked, what the runs were made with, and who made the table of them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import yaml

from smallgroup.config import resolve
from smallgroup.phases.search.config import ANSWERS, AnswerRule
from smallgroup.runtime.files import read_regular
from smallgroup.runtime.plain_yaml import parsed
from smallgroup.study.file import keys_of
from smallgroup.study.measures import MEASURES, OF_SCORES, PREDICTED
from smallgroup.study.plan import Plan
from smallgroup.study.store import Store
from smallgroup.study.truth import judge_for, surrogate_for, truth_for
from smallgroup.version import __version__

_IMAGES = {"train": "training", "validation": "validation", "unlabeled": "unlabeled", "test": "test"}
"""Counts of a run, and the words for them."""


def footer(plan: Plan, store: Store) -> list[str]:
    """Return the sentences below the table."""
    study = plan.study
    of_all = ", mean of all learners of a search, as are all numbers of learners" if study.takes_means else ""
    return [
        f"primary endpoint, named in the study file: {MEASURES[study.primary].title}{of_all}",
        *dict.fromkeys(_effects(plan)),
        *dict.fromkeys(_predictions(plan)),
        *dict.fromkeys(_lookups(plan)),
        *_answers(plan),
        f"recipe {study.recipe}, seeds {', '.join(map(str, study.seeds))}",
        *([f"rows with {_any_of(plan.only)} in their names alone, and claims about those"] if plan.only else []),
        *made_with(plan, store),
        f"table and statistics: smallgroup {__version__}, numpy {np.__version__}, scipy {scipy.__version__}",
        f"config hash {plan.hash}, {datetime.now(UTC):%Y-%m-%d}",
    ]


def _any_of(texts: Sequence[str]) -> str:
    return " or ".join(map(repr, texts))


def made_with(plan: Plan, store: Store) -> list[str]:
    """Return versions and machines as the runs recorded them, which may differ from those of this process."""
    done = [store.place(run) for run in plan.runs if store.result(run) is not None]
    return [
        *(f"{_runs(count)} {said}" for said, count in Counter(map(_place_and_tools, done)).most_common()),
        *(f"{_runs(count)} with {said}" for said, count in Counter(filter(None, map(_images, done))).most_common()),
        *(f"{_runs(count)} on {note}" for note, count in Counter(n for place in done for n in _notes(place)).items()),
    ]


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _place_and_tools(place: Path) -> str:
    versions, machine = (_section(_facts(place), name) for name in ("versions", "machine"))
    environment = _section(_plain(place / "config.yaml"), "environment")
    tools = [f"{name} {versions[name]}" for name in ("smallgroup", "python", "torch", "numpy") if name in versions]
    where = [str(environment["cpu"])] if "cpu" in environment else []
    where += [f"{machine['cores']} cores"] if "cores" in machine else []
    how = [f"{name} {environment[name]}" for name in ("threads", "kernels") if name in environment]
    found = ", ".join([*tools, *where, *how])
    return f"with {found}" if found else "without a record of versions and machine"


def _images(place: Path) -> str:
    counts = {name: count for name, count in _section(_facts(place), "images").items() if isinstance(count, int)}
    known = [f"{counts[name]:,} {word}" for name, word in _IMAGES.items() if name in counts]
    return f"{', '.join(known)} images" if known else ""


def _notes(place: Path) -> list[str]:
    notes = _facts(place).get("notes")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def _facts(place: Path) -> Mapping[str, Any]:
    return _plain(place / "facts.json")


def _plain(path: Path) -> Mapping[str, Any]:
    """Return what a run recorded, if it can be read."""
    try:
        content = read_regular(path)
        found = json.loads(content) if path.suffix == ".json" else parsed(content)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _section(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = plain.get(name)
    return found if isinstance(found, Mapping) else {}


def _answers(plan: Plan) -> list[str]:
    """Return the rules by which searches answer, by row if rows differ."""
    found: dict[AnswerRule, list[str]] = {}
    for line in plan.lines:
        for rule in dict.fromkeys(runs.search.config.search.answer for runs in line.runs.values()):
            found.setdefault(rule, []).append(line.name)
    if len(found) == 1:
        return [f"answer of every search: {rule}: {ANSWERS[rule]}" for rule in found]
    return [f"answer in {'; '.join(rows)}: {rule}: {ANSWERS[rule]}" for rule, rows in found.items()]


def _effects(plan: Plan) -> Iterator[str]:
    """Yield how much of the table is explained by the effects that scores are compared with."""
    if OF_SCORES not in plan.study.measures:
        return
    for line in plan.lines:
        config = resolve(keys_of(plan.study, line.point, line.row, plan.study.seeds[0]))
        if (said := truth_for(config).effects_in_words(config.data.dataset)) is not None:
            yield f"{MEASURES[OF_SCORES].title}: {said}"


def _predictions(plan: Plan) -> Iterator[str]:
    """Yield how far predictions can be trusted."""
    for measure in plan.study.measures if PREDICTED.intersection(plan.study.measures) else ():
        for line in plan.lines if measure in PREDICTED else ():
            config = resolve(keys_of(plan.study, line.point, line.row, plan.study.seeds[0]))
            by = surrogate_for(config)
            yield f"{MEASURES[measure].title}, by {by.name}, beside {by.compared_with}: {by.caveat}"


def _lookups(plan: Plan) -> Iterator[str]:
    """Yield what rows without a search were allowed to know."""
    for line in plan.lines:
        baseline = line.row.baseline
        if baseline is None:
            continue
        if baseline.kind == "untrained":
            yield f"{line.row.name}: cells of architectures before their first step"
            continue
        config = resolve(keys_of(plan.study, line.point, line.row, plan.study.seeds[0]))
        judge = judge_for(config)
        by = f"scored by column {judge.scored}"
        if judge.predicts:
            by = "scored by the same predictions: it knows the answer"
        yield f"{line.row.name}: the best of {baseline.lookups} lookups in column {judge.looked_up}, {by}"
