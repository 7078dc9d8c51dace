"""The command on several ranks, as `torchrun` starts it, without its own start: copies of this process on loopback.

Real processes and gloo, in a network namespace of their own where that is possible. What torchrun does beside that is
done here too: when a rank ends with an error, the others are asked to end, and killed if they do not. It asks at once;
here they have time to end by themselves, so that what they say does not depend on who is faster.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from smallgroup.cli import main

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
PATIENCE = 240.0
"""Seconds after which ranks that do not end are killed."""
GRACE = 60.0
"""Seconds that ranks have to end by themselves when another one has failed, before they are asked to."""


@dataclass(frozen=True)
class Ended:
    """How a rank has ended, and what it has said."""

    code: int
    out: str
    said: str


def launch(
    words: Sequence[str] | Sequence[Sequence[str]],
    folder: Path,
    *,
    ranks: int = 2,
    prepare: Callable[[int], None] | None = None,
    after: Callable[[Sequence[int]], None] | None = None,
) -> list[Ended]:
    """Run a command on every rank, or a command each, and return how they ended.

    `prepare` runs on every rank before the command. `after` is called with the processes of the ranks once they run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [list(map(str, words)) for _ in range(ranks)] if isinstance(words[0], str) else [list(w) for w in words]
    process = os.fork()
    if not process:
        code = 1
        try:
            code = _in_own_network(lines, folder, prepare, after)
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the ranks could not be started, or hung"
    return [
        Ended(int((folder / f"{rank}.code").read_text()), _text(folder, rank, "out"), _text(folder, rank, "err"))
        for rank in range(len(lines))
    ]


def _text(folder: Path, rank: int, name: str) -> str:
    return (folder / f"{rank}.{name}").read_text(errors="replace")


def _in_own_network(
    lines: Sequence[Sequence[str]],
    folder: Path,
    prepare: Callable[[int], None] | None,
    after: Callable[[Sequence[int]], None] | None,
) -> int:
    port = 29500 if own_network() else _free_port()
    processes = []
    for rank, line in enumerate(lines):
        process = os.fork()
        if not process:
            _be_rank(rank, line, (len(lines), port), folder, prepare)
        processes.append(process)
    if after is not None:
        after(processes)
    return 0 if _waited(processes, folder) else 1


def _be_rank(
    rank: int, line: Sequence[str], where: tuple[int, int], folder: Path, prepare: Callable[[int], None] | None
) -> None:
    code, (ranks, port) = 1, where
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / f"{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        if prepare is not None:
            prepare(rank)
        code = main(list(line))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _waited(processes: Sequence[int], folder: Path) -> bool:
    """Wait for all; if one fails, ask the others to end after a while."""
    codes: dict[int, int] = {}
    deadline, failed, asked = time.monotonic() + PATIENCE, 0.0, False
    while len(codes) < len(processes):
        for rank, process in enumerate(processes):
            if rank not in codes and (ended := os.waitpid(process, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(ended[1])
                (folder / f"{rank}.code").write_text(str(codes[rank]))
        if any(codes.values()):
            failed = failed or time.monotonic()
        if failed and not asked and time.monotonic() > failed + GRACE:
            asked, deadline = True, time.monotonic() + 60
            _signal(processes, codes, signal.SIGTERM)
        if time.monotonic() > deadline:
            _signal(processes, codes, signal.SIGKILL)
            return False
        time.sleep(0.01)
    return True


def _signal(processes: Sequence[int], codes: dict[int, int], number: signal.Signals) -> None:
    for rank, process in enumerate(processes):
        if rank not in codes:
            os.kill(process, number)


def own_network() -> bool:
    """Put this process into a network namespace in which there is loopback alone; whether that is possible here."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_USER | NEW_NETWORK):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up_and_running = 0x1 | 0x40
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", up_and_running))  # SIOCSIFFLAGS
    return True


def _free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])
