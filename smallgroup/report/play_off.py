"""The candidates of a play-off, and how far each of them came."""

from collections.abc import Mapping
from typing import Any

from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, at, number_at, whole
from smallgroup.report.words import count, percent
from smallgroup.runtime.bounds import MOST


def play_off_section(run: Run, prefix: str = "") -> Markup | None:
    """Return a table of the candidates, those that came furthest first; None where there was no play-off."""
    found = at(run.result, "answer", "candidates")
    if not isinstance(found, list) or not found:
        return None
    candidates = [one for one in found[: MOST["candidates"]] if isinstance(one, Mapping)]
    ranked = sorted(candidates, key=_place)
    return render("play_off.html", anchor=f"{prefix}play-off", rows=[_row(one) for one in ranked])


def _place(candidate: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return a sort key: more rounds first, then the lower error."""
    rounds, error = whole(candidate.get("rounds")) or 0, number_at(candidate, "validation_error")
    loss = number_at(candidate, "validation_loss")
    return -rounds, 101.0 if error is None else error, 0.0 if loss is None else loss


def _row(candidate: Mapping[str, Any]) -> list[str]:
    """Return a candidate's name and its columns."""
    seconds, steps = number_at(candidate, "seconds"), number_at(candidate, "steps")
    return [
        str(candidate.get("source", "")),
        str(whole(candidate.get("rounds")) or 0),
        "" if steps is None else count(steps),
        "" if seconds is None else f"{seconds:.1f}",
        percent(number_at(candidate, "validation_error")),
    ]
