"""Commands under `torchrun`: rank 0 carries the command out, the other ranks compute for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from smallgroup.cli.wanted import Wanted
from smallgroup.places import is_begun
from smallgroup.runtime.launch import launched
from smallgroup.version import __version__

COMMANDS = ("search", "run", "train", "mutual")
"""Those that can be launched on several ranks."""


def check_launched(command: str | None) -> None:
    """Refuse a command that every rank would carry out by itself."""
    if command not in COMMANDS and (launch := launched()) is not None:
        names = ", ".join(COMMANDS)
        raise ValueError(f"torchrun launches {names}, but {command} was launched on {launch.ranks} ranks")


def restarted(wanted: Wanted) -> Wanted:
    """Return the request of a process that `torchrun --max-restarts` has restarted: to resume the run."""
    launch = launched()
    if launch is None or not launch.restarts:
        return wanted
    if wanted.out is None:
        raise ValueError("resuming after a restart of torchrun needs --out, but none was given")
    return replace(wanted, resume=True, time_budget=None) if is_begun(wanted.out) else wanted


def asked(command: str, wanted: Wanted, **more: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of options
    """Return the options that must be equal on all ranks. Where to write is up to rank 0."""
    about = {"resume": wanted.resume, "seeds": wanted.seeds, "time_budget": wanted.time_budget}
    return {"command": command, "version": __version__, "keys": wanted.given(), **about, **more}


def carry_out(asked: Mapping[str, Any], check: Callable[[], None], act: Callable[[], None]) -> None:
    """Check what is asked for and do it; under `torchrun` on rank 0, with the work dealt to all ranks.

    Args:
        asked: what it is; ranks that were asked for different things are refused.
        check: refuses input that can be refused before torch is loaded.
        act: does it.
    """
    launch = launched()
    if launch is None or launch.is_first:
        check()
    if launch is None:
        act()
        return
    from smallgroup.ranks import on_ranks  # noqa: PLC0415 -- it loads torch

    on_ranks(act, asked)


def is_follower() -> bool:
    """Return whether this process computes for rank 0, which alone prints."""
    launch = launched()
    return launch is not None and not launch.is_first
