"""Carry out `smallgroup export`: write the file and print what it costs."""

from pathlib import Path

from smallgroup.cli.output import print_columns, print_json
from smallgroup.shipping import export


def run(folder: Path, format: str, out: Path | None, *, int8: bool, fine_tune: int | None, as_json: bool) -> None:
    """Export a model, and say where it is and how far it agrees."""
    exported = export(folder, format, out, int8=int8, fine_tune=fine_tune)
    if as_json:
        print_json(exported.to_dict())
        return
    print_columns(
        [
            ("model", exported.path),
            ("card", exported.card),
            *([] if exported.script is None else [("program", f"{exported.script}, which classifies images with it")]),
            ("difference", f"{exported.difference:.1e}, at most {exported.tolerance:.1e} is allowed"),
            *([] if exported.int8 is None else exported.int8.rows()),
        ]
    )
