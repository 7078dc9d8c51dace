"""What carries the workers of a study: processes of this machine, an array job of Slurm, tasks of Ray."""

from collections.abc import Sequence
from typing import Literal

from smallgroup.runtime.text import shown
from smallgroup.study.engines.engine import Engine, Workload
from smallgroup.study.engines.local import LocalEngine
from smallgroup.study.engines.on_ray import RayEngine
from smallgroup.study.engines.slurm import SlurmEngine

__all__ = ["Engine", "EngineName", "LocalEngine", "RayEngine", "SlurmEngine", "Workload", "engine_named"]

EngineName = Literal["local", "slurm", "ray"]


def engine_named(name: EngineName, slurm: Sequence[str] = ()) -> Engine:
    """Return an engine as the command names it, with options of sbatch such as `partition=cpu`."""
    if name == "slurm":
        pairs = [text.partition("=") for text in slurm]
        for text, (key, sign, _) in zip(slurm, pairs, strict=True):
            if not (key and sign):
                raise ValueError(f"--slurm must be KEY=VALUE, but got {shown(text)}")
        return SlurmEngine({key: value for key, _, value in pairs})
    if slurm:
        raise ValueError(f"--slurm is for --engine slurm, but the engine is {name}")
    return LocalEngine() if name == "local" else RayEngine()
