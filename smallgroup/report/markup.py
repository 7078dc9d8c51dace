"""Pages out of Jinja2 templates: every value is cleaned and escaped, and there is no other way to write one."""

import json
import math
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from smallgroup.runtime.text import escape_html

__all__ = ["Markup", "embedded", "joined", "number", "render", "text"]


def render(template: str, /, **values: object) -> Markup:
    """Return what a template of this package makes of some values."""
    made = _environment().get_template(template).render(**values)
    return Markup(made)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("smallgroup.report", "templates"),
        autoescape=True,
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )


def text(value: object) -> Markup:
    """Return a value of a template as markup: nothing in it is a tag, an attribute or a control character.

    Autoescape alone would leave control and bidirectional characters as they are. None is nothing; a float is a
    coordinate.
    """
    if isinstance(value, Markup):
        return value
    return Markup(escape_html(number("" if value is None else value)))


def joined(parts: list[Markup | None]) -> Markup:
    """Return pieces of markup one after the other."""
    return Markup("\n").join(part for part in parts if part is not None)


def number(value: object) -> object:
    """Return a coordinate with two digits at most: short, and the same everywhere. What is no float stays as it is."""
    if not isinstance(value, float):
        return value
    short = f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"
    return "0" if short == "-0" else short


def embedded(document: Any) -> Markup:  # noqa: ANN401 -- whatever JSON can hold
    """Return JSON for a script element, where nothing is unescaped: no `</script>` and no comment can be in it."""
    plain = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        plain = plain.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(plain)
