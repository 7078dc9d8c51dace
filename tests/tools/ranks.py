"""Real processes that meet over loopback, in a network of their own where that is possible."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

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
