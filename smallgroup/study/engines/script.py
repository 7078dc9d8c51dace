"""The script of an array job of Slurm. What users give cannot become a part of it that the shell or Slurm acts on."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from smallgroup.runtime.checks import suggestion
from smallgroup.runtime.text import shown
from smallgroup.study.engines.engine import Workload

OPTIONS = (
    "account",
    "begin",
    "constraint",
    "cpus-per-gpu",
    "cpus-per-task",
    "exclude",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gres",
    "licenses",
    "mail-type",
    "mail-user",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "nice",
    "nodelist",
    "partition",
    "prefer",
    "qos",
    "reservation",
    "time",
    "tmp",
)
"""Options of sbatch that may be given; the others are the engine's, or make no sense for workers."""
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@%+=/&|()\[\]*-]{1,500}")
"""Nothing that ends a word of an `#SBATCH` line or the line, that quotes, or that begins a comment."""
_ASK_FOR_GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gres")
_TASK = '"${SLURM_ARRAY_TASK_ID:?}"'


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options of sbatch that cannot be given, and values that could be read as something else."""
    for key, value in options.items():
        if key not in OPTIONS:
            hint = suggestion(key, OPTIONS)
            raise ValueError(f"an option of sbatch must be one of {', '.join(OPTIONS)}, but got {shown(key)}{hint}")
        if not _VALUE.fullmatch(value):
            raise ValueError(
                "a value of an option of sbatch must be letters, digits and _.,:;@%+=/&|()[]*- without spaces, but "
                f"{key} is {shown(value)}"
            )


def code_of(work: Workload, number: int) -> Path:
    """Return the file in which a task leaves its exit code."""
    return work.folder / f"{work.crew}-{number}.code"


def written(work: Workload, numbers: Sequence[int], options: Mapping[str, str]) -> bytes:
    """Return the script. Paths and names stand in quoted words of the shell alone, never in an `#SBATCH` line."""
    work = work.absolute
    gpu = {"gpus-per-task": "1"} if work.gpu and not any(key in options for key in _ASK_FOR_GPUS) else {}
    settings: dict[str, str | None] = {
        "job-name": "smallgroup-" + re.sub(r"[^A-Za-z0-9_.-]", "_", work.study)[:100],
        "array": ",".join(map(str, numbers)),
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": "1",
        "output": "/dev/null",  # below, what it has to say goes to the log
        "requeue": None,
        "signal": "B:TERM@90",  # so that a worker saves before its time is over
        **gpu,
        **options,
    }
    command = [
        *map(shlex.quote, [*work.program, *work.arguments]),
        _numbered(work.folder, f"{work.crew}-", ".run"),
        _numbered(work.folder, f"{work.crew}-", ".code"),
        *map(shlex.quote, work.plugins),
    ]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{key}" + ("" if value is None else f"={value}") for key, value in settings.items()),
        f"cd -- {shlex.quote(str(Path.cwd()))} || exit 1",
        "export OMP_NUM_THREADS=1",
        f"exec >>{_numbered(work.folder, '', '.log')} 2>&1 </dev/null",
        "exec " + " ".join(command),  # in the place of the shell, so that signals reach the worker
    ]
    return os.fsencode("\n".join(lines) + "\n")


def _numbered(folder: Path, before: str, after: str) -> str:
    """Return the word of a path with the number of the task in it, which only the task knows."""
    return f"{shlex.quote(f'{folder}/{before}')}{_TASK}{shlex.quote(after)}"
