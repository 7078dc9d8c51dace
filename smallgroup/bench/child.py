"""A measurement in a process of its own: nothing that ran before it has left its memory in another state."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from smallgroup.registry import import_plugins, imported_plugins

Told = Callable[[Mapping[str, Any]], None]


def in_a_process(module: str, asked: Mapping[str, Any], what: str, told: Told | None = None) -> Mapping[str, Any]:
    """Return what `python -m MODULE JSON` prints: one document per line. The last is the result, others are progress.

    A document with an `error` is about what was asked for: a ValueError here.
    """
    command = [sys.executable, "-m", module, json.dumps({**asked, "plugins": imported_plugins()})]
    last: Mapping[str, Any] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if last and told is not None:
                        told(last)
                    last = json.loads(line)
            except BaseException:
                process.kill()
                raise
        complaints.seek(0)
        complaint = complaints.read()
    if "error" in last:
        raise ValueError(last["error"])
    if process.returncode or not last:
        said = complaint.strip().splitlines()[-1:] or [f"it ended with code {process.returncode}"]
        # -9 is SIGKILL, which a process cannot report itself.
        why = "the system ended it, as it does when memory runs out" if process.returncode == -9 else said[0]
        raise RuntimeError(f"the process that measures {what} failed: {why}")
    return last


def read_asked(text: str) -> dict[str, Any]:
    """Return what is asked for, inside such a process, with the plugins of the one that started it."""
    asked: dict[str, Any] = json.loads(text)
    import_plugins(asked.pop("plugins", ()))
    return asked


def say(document: Mapping[str, Any]) -> None:
    """Print a document as JSON, for the process that started this one."""
    print(json.dumps(document), flush=True)
