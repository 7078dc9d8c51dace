"""HTML and SVG out of calls: what is not markup is escaped, and there is no other way to write it."""

import json
import math
from collections.abc import Iterable
from typing import Any

from smallgroup.runtime.text import escape_html

VOID = frozenset({"meta", "img", "input", "br", "link"})


class Markup(str):
    """A text that is markup already. Whatever is a plain `str` is escaped when it becomes part of one."""

    __slots__ = ()


Child = str | Markup | None
"""None is nothing."""


def text(foreign: object) -> Markup:
    """A text that is not ours as markup: nothing in it is a tag, an attribute or a control character."""
    return Markup(escape_html(foreign))


def joined(parts: Iterable[Child]) -> Markup:
    """One after the other."""
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts if part is not None))


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element. `class_` is class, `data_x` is data-x; an attribute that is None or False is not there."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        label = "viewBox" if label == "viewbox" else label
        words.append(label if value is True else f'{label}="{text(number(value))}"')
    inner = joined(children)
    start = " ".join(words)
    if name in VOID:
        return Markup(f"<{start}>")
    return Markup(f"<{start}>{inner}</{name}>")


def number(value: object) -> object:
    """A coordinate with two digits at most: short, and the same everywhere."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0", "0") if abs(value) < 0.005 else _short(value)
    return value


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def embedded(document: Any) -> Markup:  # noqa: ANN401 -- whatever JSON can hold
    """JSON inside a script element, where nothing is unescaped: no `</script>` and no comment can be in it."""
    plain = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        plain = plain.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(plain)


def row_of(cells: Iterable[Child], first: Child = None) -> Markup:
    """A row of a table; `first` is its head."""
    return tag("tr", None if first is None else tag("th", first, scope="row"), *(tag("td", cell) for cell in cells))


def table(head: Iterable[Child], rows: Iterable[Markup], caption: str = "", **attributes: object) -> Markup:
    """A table that scrolls by itself where it is wider than the page."""
    inner = tag(
        "table",
        tag("caption", tag("span", caption, class_="caption")) if caption else None,
        tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))),
        tag("tbody", *rows),
        **attributes,
    )
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")
