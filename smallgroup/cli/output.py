"""How commands print."""

import json
from collections.abc import Iterable

import typer


def print_json(document: object) -> None:
    """One JSON document."""
    typer.echo(json.dumps(document, indent=2))


def print_columns(rows: Iterable[tuple[str, ...]]) -> None:
    """Texts below one another, each column as wide as its longest text."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
