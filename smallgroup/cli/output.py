"""How commands print: here or on the console of `cli.console`, and never anything that is not printable."""

import json
from collections.abc import Iterable

import typer

from smallgroup.runtime.text import printable


def say(*lines: object, err: bool = False) -> None:
    """Print lines, each on one line whatever is in it; without any, an empty one."""
    for line in lines or ("",):
        typer.echo(printable(line), err=err)


def print_json(document: object) -> None:
    """One JSON document, in ASCII: what a terminal would act on is an escape of JSON."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=True))


def print_columns(rows: Iterable[tuple[object, ...]]) -> None:
    """Texts below one another, each column as wide as its longest text."""
    texts = [[printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        say("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
