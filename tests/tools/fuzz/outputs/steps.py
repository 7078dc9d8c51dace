"""Something that a command does, and what it prints meanwhile."""

from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

from smallgroup.cli import main

Step = Callable[[], int]
"""Gives an exit code."""


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def command(line: Sequence[str]) -> Step:
    """Return a step that is a command line."""
    return lambda: main(line)


def heard(step: Step) -> Said:
    """Take a step and note what is printed meanwhile; an error that no command lets through is raised."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = step()
    return Said(code, out.getvalue(), err.getvalue())
