"""The negative control: with a part of the cleaning taken out, the fuzzer must find what that part prevents."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from smallgroup.runtime import text


def _as_it_is(content: str, quote: bool = True) -> str:  # noqa: ARG001 -- stands in for `html.escape`, too
    return content


CONTROLS: dict[str, tuple[str, Any]] = {
    "unseen characters": ("_visible", _as_it_is),
    "formulas": ("_FORMULA", ()),
    "TeX": ("_TEX", {}),
    "Markdown": ("_MARKDOWN", re.compile(r"(?!)")),
    "HTML": ("html", SimpleNamespace(escape=_as_it_is)),
}
"""Parts of `smallgroup.runtime.text`, each with what stands in for it."""


@contextmanager
def without_cleaning(which: str) -> Iterator[None]:
    """Take out a part of the cleaning for a while."""
    name, instead = CONTROLS[which]
    with patch.object(text, name, instead):
        yield
