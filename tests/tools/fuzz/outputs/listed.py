"""`smallgroup list`, whose names and texts come with the package: methods of other packages may bring any."""

import os
from unittest.mock import patch

from smallgroup.cli import lists
from tests.tools.fuzz.outputs.attacks import ATTACKS, WORST
from tests.tools.fuzz.outputs.steps import Said, Step, command, heard

WIDTHS = ("", "30", "200")
"""Columns of the terminal; of none the output is a pipe."""


def list_attacks() -> dict[str, Said]:
    """What `list` prints of names and texts that are attacks, on terminals of several widths and as JSON."""
    entries = {**dict(zip(ATTACKS.values(), ATTACKS.values(), strict=True)), "name": WORST, WORST: "text"}
    said = {}
    with patch.dict(lists.LISTS, {"methods": lambda: entries}):
        for width in WIDTHS:
            said[f"list methods, width {width or 'none'}"] = heard(_as_wide(width, command(["list", "methods"])))
        said["list methods --json"] = heard(command(["list", "methods", "--json"]))
    return said


def _as_wide(width: str, step: Step) -> Step:
    def wide() -> int:
        with patch.dict(os.environ, {"COLUMNS": width} if width else {}):
            if not width:
                os.environ.pop("COLUMNS", None)
            return step()

    return wide
