"""Which implementation computes a supernet or a network: the one place here that knows how it is chosen."""

from contextlib import AbstractContextManager

from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.kernel_paths import AUTO, PATHS

PLAIN = "plain"


def check_path(asked: str) -> None:
    """Refuse what is no path to compare with the plain one; whether this machine has it is not asked."""
    check_choice("path", asked, (AUTO, *(path for path in PATHS if path != PLAIN)))


def fast_path(asked: str = AUTO) -> str:
    """Return the path to compare with the plain one: the best one on the device in use, or the one asked for."""
    from smallgroup import kernels  # noqa: PLC0415 -- it loads torch
    from smallgroup.runtime.device import current  # noqa: PLC0415 -- as does this

    check_path(asked)
    if current().type != "cpu":
        if asked == "native":
            raise ValueError(f"--path native needs the CPU, but the device is {current()}; take auto or torch")
        return "torch"
    if asked == AUTO:
        return kernels.best()
    there = [path for path in kernels.available() if path != PLAIN]  # asked only now: it may compile something
    check_choice("path", asked, (AUTO, *there), " on this machine")
    return asked


def on(path: str) -> AbstractContextManager[object]:
    """Compute everything inside the context on this path."""
    from smallgroup import kernels  # noqa: PLC0415 -- it loads torch

    return kernels.using(path)
