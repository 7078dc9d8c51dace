"""How a run is ended: which signal, and at which moment; also from within, at the n-th thing it does to its files."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from tests.tools.chaos.processes import children

How = Literal[
    "SIGKILL", "SIGTERM", "SIGINT", "SIGINT twice", "SIGTERM, SIGKILL", "of a worker", "at a file", "in a file"
]
"""What is sent, or SIGKILL to a process that the run has started. At or in a file: the process dies by itself when it
is about to touch a file of its folder, or soon after, which is in the middle of writing it."""
HOW: tuple[How, ...] = get_args(How)
FROM_OUTSIDE: tuple[How, ...] = HOW[:-2]
WATCHED = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "shutil.rmtree")
"""What Python reports of a process (`sys.audit`) that has to do with files."""


@dataclass(frozen=True)
class Attack:
    """One kill."""

    how: How = "SIGKILL"
    steps: int = 0
    """From outside: so many checkpoints later than the newest there is."""
    step: int | None = None
    """From outside, in place of that: once the checkpoint of this step is there."""
    share: float = 0.0
    """Then after this part of the time of a step; in a file: of the time to write one."""
    event: int = 0
    """From within: at this one of the things it does to its files, from the beginning of its process."""

    @property
    def within(self) -> bool:
        """Whether the process does it itself."""
        return self.how in ("at a file", "in a file")

    @property
    def breaks(self) -> bool:
        """Whether the run may end by an error: who does its work is gone."""
        return self.how == "of a worker"


def attacks(generator: torch.Generator, allowed: tuple[How, ...] = HOW) -> Iterator[Attack]:
    """Without end, at random; every way comes as often as any other."""

    def below(end: int) -> int:
        return int(torch.randint(end, (), generator=generator))

    while True:
        for place in torch.randperm(len(allowed), generator=generator).tolist():
            share = float(torch.rand((), generator=generator))
            # A resumption does some thirty things to its files, and a checkpoint some fifteen.
            yield Attack(allowed[place], steps=below(3), share=share, event=below(70))


WRITING = 0.002
"""Seconds that it takes to write a small file and bring it to the disk, about."""


def die_within(attack: Attack, folder: Path, told: int) -> None:
    """Let this process die at a moment of its own; `told` is a pipe that hears what it was about to do."""
    top, left = os.path.realpath(folder), attack.event

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in WATCHED or not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.path.realpath(os.fspath(arguments[0]))
        if not path.startswith(top):
            return
        left -= 1
        if left != -1:
            return
        name = re.sub(r"[0-9a-f]{8,16}$", "...", os.path.basename(path))  # alike, whatever the step or the process
        os.write(told, f"at {event} {name}\n".encode())
        if attack.how == "at a file":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends a process as suddenly
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, attack.share * WRITING))

    sys.addaudithook(look)


def send(attack: Attack, process: int, seconds: float) -> None:
    """Do it from outside; where two signals are sent, the second comes after so many seconds."""
    names = {"SIGINT twice": "SIGINT, SIGINT", "of a worker": "SIGKILL"}.get(attack.how, attack.how).split(", ")
    workers = children(process) if attack.how == "of a worker" else []
    target = workers[attack.event % len(workers)] if workers else process
    for place, name in enumerate(names):
        if place:
            time.sleep(seconds)
        try:
            os.kill(target, signal.Signals[name])
        except ProcessLookupError:  # it did not need the second one
            return
