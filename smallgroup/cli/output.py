"""How commands print: here or on the console of `display.console`, and never anything that is not printable."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

import typer

from smallgroup.runtime.text import printable


def say(*lines: object, err: bool = False) -> None:
    """Print lines, each on one line whatever is in it; without any, an empty one."""
    for line in lines or ("",):
        typer.echo(printable(line), err=err)


def print_json(document: object) -> None:
    """Print one JSON document in ASCII: control characters of a terminal are escapes in JSON."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=True))


def print_entries(entries: Iterable[tuple[str, str]]) -> None:
    """Print names and a text on each, folded to the width of the terminal. Into a pipe, each goes on one line."""
    pairs = [(printable(name), printable(text)) for name, text in entries]
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        print_columns(pairs)
        return
    width = shutil.get_terminal_size().columns
    indent = max(len(name) for name, _ in pairs) + 2
    below = indent > width // 2  # no room for the text beside the names
    for name, text in pairs:
        rest = " " * (4 if below else indent)
        lines = textwrap.wrap(
            text,
            max(width, 20),
            initial_indent=rest if below else f"{name:{indent}}",
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        say(*([name] if below or not lines else []), *lines)


def print_columns(rows: Iterable[tuple[object, ...]]) -> None:
    """Print rows with each column as wide as its longest text."""
    texts = [[printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        say("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
