"""Which implementation computes a supernet or a network: the one place here that knows how it is chosen."""

from contextlib import AbstractContextManager

from smallgroup import kernels
from smallgroup.runtime.checks import check_choice

PLAIN, AUTO = "plain", "auto"


def fast_path(asked: str = AUTO) -> str:
    """The path that is to be compared with the plain one: the best there is on this machine, or the one asked for."""
    check_choice("path", asked, (AUTO, *(path for path in kernels.PATHS if path != PLAIN)))
    if asked == AUTO:
        return kernels.best()
    there = [path for path in kernels.available() if path != PLAIN]  # asked only now: it may compile something
    check_choice("path", asked, (AUTO, *there), " on this machine")
    return asked


def on(path: str) -> AbstractContextManager[object]:
    """Everything that is computed inside goes this way."""
    return kernels.using(path)
