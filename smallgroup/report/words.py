"""Numbers and small things as a reader wants them, each with where it comes from."""

import shlex
from pathlib import Path

from smallgroup.report.markup import Child, Markup, tag
from smallgroup.report.run import RunState
from smallgroup.runtime.durations import written

STATES: dict[RunState, str] = {"finished": "finished", "running": "running now", "stopped": "not finished"}


def percent(value: float | None, digits: int = 2) -> str:
    """A share in percent."""
    return "not known" if value is None else f"{value:.{digits}f} %"


def signed(value: float, digits: int = 2) -> str:
    """A difference."""
    return f"{value:+.{digits}f}".replace("-", "\u2212")


def count(value: float | None) -> str:
    """A large number."""
    return "not known" if value is None else f"{value:,.0f}"


def sized(value: float | None) -> str:
    """A large number, rounded: 3.35 M."""
    if value is None:
        return "not known"
    for unit, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= power:
            return f"{value / power:.3g} {unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """A length of time."""
    if seconds is None:
        return "not known"
    return f"{seconds:.1f} s" if seconds < 10 else written(seconds)


def sourced(words: Child, source: str, name: str = "span") -> Markup:
    """Something that says where it comes from."""
    return tag(name, words, title=f"from {source}", data_source=source)


def fact(title: str, value: Child, source: str, more: Child = None) -> Markup:
    """An entry of a list of facts."""
    note = None if more is None else tag("span", more, class_="note")
    return tag("div", tag("dt", title), tag("dd", sourced(value, source), note), class_="fact")


def command(*words: str) -> Markup:
    """A command to copy."""
    line = shlex.join(words)
    button = tag("button", "Copy", type="button", class_="copy", aria_label=f"Copy: {line}")
    heard = tag("span", "", role="status", class_="heard")  # what became of it, for those who do not see the button
    return tag("div", tag("code", line), button, heard, class_="command")


def shown_path(folder: Path) -> str:
    """As a user would type it; a name that begins with a dash is no option."""
    words = str(folder)
    return f"./{words}" if words.startswith("-") else words


def section(anchor: str, title: str, *children: Child, about: str = "") -> Markup:
    """A part of the page."""
    return tag(
        "section",
        tag("h2", title),
        tag("p", about, class_="about") if about else None,
        *children,
        id=anchor,
        class_="part",
    )


def tabs(name: str, panels: list[tuple[str, Markup]], label: str) -> Markup:
    """Panels of which a script shows one at a time; without it, and on paper, all of them."""
    if len(panels) == 1:
        return panels[0][1]
    buttons = [
        tag(
            "button",
            title,
            type="button",
            role="tab",
            id=f"{name}-tab-{place}",
            aria_controls=f"{name}-panel-{place}",
            aria_selected="true" if place == 0 else "false",
            tabindex="0" if place == 0 else "-1",
        )
        for place, (title, _) in enumerate(panels)
    ]
    bodies = [
        tag(
            "div",
            tag("h3", title, class_="tab-title"),
            body,
            role="tabpanel",
            id=f"{name}-panel-{place}",
            aria_labelledby=f"{name}-tab-{place}",
        )
        for place, (title, body) in enumerate(panels)
    ]
    return tag("div", tag("div", *buttons, role="tablist", aria_label=label), *bodies, class_="tabs", data_tabs=name)
