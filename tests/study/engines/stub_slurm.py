"""Commands of the names of Slurm's that really run what they are given, on this machine.

`sbatch` reads the lines of the script as Slurm does, and starts it once per number of the array. `squeue` lists what
still runs. `scancel` sends signals to the process of the script, as to the batch step.
"""

import stat
import sys
from pathlib import Path

_SBATCH = """
import os, shlex, subprocess, sys
arguments = sys.argv[1:]
assert arguments[0] == "--parsable" and len(arguments) == 2, arguments
lines = open(arguments[1], "rb").read().split(b"\\n")
assert lines[0] == b"#!/bin/bash"
own = [os.fsdecode(line) for line in lines if line.startswith(b"#SBATCH")]
words = [word for line in own for word in shlex.split(line[7:], comments=True)]
options = dict(word.removeprefix("--").partition("=")[::2] for word in words)
if options.get("partition") == "closed":
    sys.exit("sbatch: error: invalid partition specified: closed")
job = str(1 + len(os.listdir(STATE)))
os.mkdir(f"{STATE}/{job}")
script = f"{STATE}/{job}/script"
open(script, "wb").write(b"\\n".join(lines))
for number in options["array"].split(","):
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": number, "SLURM_ARRAY_JOB_ID": job}
    out = open(options["output"], "ab")
    process = subprocess.Popen(["bash", script], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                               cwd="/", start_new_session=True)
    open(f"{STATE}/{job}/{number}.pid", "w").write(str(process.pid))
print(job)
"""
_SQUEUE = """
import os, sys
assert sys.argv[1:3] == ["--noheader", "--array"] and sys.argv[4] == "--format=%F %K", sys.argv
for job in os.listdir(STATE):
    for name in os.listdir(f"{STATE}/{job}"):
        if name.endswith(".pid"):
            try:
                status = open(f"/proc/{open(f'{STATE}/{job}/{name}').read()}/stat").read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if status != "Z":
                print(job, name[:-4])
"""
_SCANCEL = """
import os, signal, sys
*options, job = sys.argv[1:]
sent = {(): 9, ("--state=PENDING",): 0, ("--batch", "--signal=TERM"): 15}[tuple(options)]
for name in os.listdir(f"{STATE}/{job}"):
    if name.endswith(".pid"):
        try:
            os.kill(int(open(f"{STATE}/{job}/{name}").read()), sent)
        except ProcessLookupError:
            pass
"""


def install(folder: Path) -> Path:
    """Write the commands into a folder for the path, and return where they keep their jobs."""
    state, commands = folder / "jobs", folder / "bin"
    state.mkdir(parents=True)
    commands.mkdir()
    for name, text in (("sbatch", _SBATCH), ("squeue", _SQUEUE), ("scancel", _SCANCEL)):
        path = commands / name
        path.write_text(f"#!{sys.executable} -SE\nSTATE = {str(state)!r}\n{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return state


def pid_of(state: Path, job: int, number: int) -> int:
    """Return the process of a task."""
    return int((state / str(job) / f"{number}.pid").read_text())
