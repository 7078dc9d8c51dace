"""Processes on two hosts that share a folder, as far as one machine can be two.

Each host has its own mounts, processes and name. `flock` holds within a host alone, as on some network file systems:
each host binds a file of its own over the lock file of the shared folder.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HOST = 'hostname "$1" && mount --bind "$2" "$3" && shift 3 && exec "$@"'


def unshared(host: str) -> list[str]:
    """Return a command that begins a host of this name; its PID 1 is what follows."""
    return ["unshare", "-rmpu", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _HOST, "sh", host]


def can_be_two() -> bool:
    """Whether this machine lets a user make namespaces."""
    command = ["unshare", "-rmpu", "--fork", "--mount-proc", "hostname", "a"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def start(host: str, folder: Path, program: str) -> "subprocess.Popen[str]":
    """Run a Python program on a host; its first argument is the shared folder."""
    own = folder.parent / f"{host}.lock"
    own.touch()
    (folder / ".lock").touch()
    command = [*unshared(host), str(own), str(folder / ".lock"), sys.executable, "-c", program, str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)
