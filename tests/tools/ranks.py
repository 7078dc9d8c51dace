"""Real processes that meet over loopback, in a network of their own where that is possible."""

import json
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tools.launched import own_network

ROOT = Path(__file__).parents[2]
LOOPBACK_ONLY = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
"""A network in which there is nothing but the loopback interface."""


def launch(module: str, ranks: int, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run `python -m MODULE RANK FOLDER ...` on every rank, and return the file RANK.json that each has written."""
    command = shlex.join([sys.executable, "-m", module])
    lines = " ".join(f"{command} {rank} {shlex.quote(str(folder))} {' '.join(arguments)} &" for rank in range(ranks))
    script = ["sh", "-c", f"{lines} wait"]
    if subprocess.run([*LOOPBACK_ONLY, "true"], capture_output=True, check=False).returncode == 0:
        script = [*LOOPBACK_ONLY, *script]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    assert all(file.exists() for file in files), done.stderr
    return [json.loads(file.read_text()) for file in files]


def fork(act: Callable[[int], None], ranks: int, folder: Path) -> list[dict[str, Any]]:
    """Run a function on every rank in a copy of this process, and return the file RANK.json that each has written."""
    leader = os.fork()
    if not leader:
        own_network()
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        processes = [_copy(act, rank, folder) for rank in range(ranks)]
        os._exit(max(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 for process in processes))
    _, status = os.waitpid(leader, 0)
    said = "\n".join(path.read_text() for path in sorted(folder.glob("*.err")))
    assert os.waitstatus_to_exitcode(status) == 0, said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def _copy(act: Callable[[int], None], rank: int, folder: Path) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.dup2(os.open(folder / f"{rank}.err", os.O_WRONLY | os.O_CREAT), 2)
        act(rank)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())  # sys.stderr is that of the tests
    finally:
        os._exit(code)
