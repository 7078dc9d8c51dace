"""Workers that Ray places: one task each, which starts the process that the other engines start too."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from smallgroup.runtime.files import open_regular
from smallgroup.runtime.text import printable
from smallgroup.study.engines.engine import Workload, environment

_PAUSE = 0.2
_LOST = -9
"""The code of a task whose process, or whose machine, has died."""


class RayEngine:
    """A task of Ray per worker, with one CPU.

    It joins the cluster that `RAY_ADDRESS` names; without it, it starts a Ray of its own on this machine.
    """

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[Any, Workload]] = {}

    def check(self) -> None:
        """Refuse to start if Ray is not installed."""
        if find_spec("ray") is None:
            raise ValueError(
                "--engine ray needs the package ray, which is not installed: pip install 'smallgroup[ray]'"
            )

    @property
    def active(self) -> Collection[int]:
        """Return the tasks that wait, run, or have ended unnoticed."""
        return tuple(self._tasks)

    def start(self, work: Workload, numbers: Sequence[int]) -> None:
        """Hand the tasks to Ray; those for which there is no CPU wait there."""
        ray = _joined(len(numbers))
        # Who is killed is replaced by the study, which counts how many a run costs.
        task = ray.remote(_work_on).options(num_cpus=1, num_gpus=int(work.gpu), max_retries=0)
        there = work.absolute
        for number in numbers:
            reference = task.remote(there.command(number), str(there.log(number)), str(Path.cwd()))
            self._tasks[number] = (reference, there)

    def poll(self) -> Mapping[int, int]:
        """Return the codes of tasks that have ended."""
        if not self._tasks:
            return {}
        import ray  # noqa: PLC0415 -- an extra

        ended = {}
        for number, (reference, work) in list(self._tasks.items()):
            if not ray.wait([reference], timeout=0)[0]:
                continue
            del self._tasks[number]
            try:
                ended[number] = int(ray.get(reference))
            except ray.exceptions.RayTaskError as error:  # the process could not be started
                _note(work.log(number), error)
                ended[number] = 1
            except ray.exceptions.RayError as error:
                _note(work.log(number), error)
                ended[number] = _LOST
        return ended

    def stop(self, *, at_once: bool = False) -> None:
        """Cancel the tasks. Those that run end when their processes have saved; `at_once` does not wait for that."""
        if not self._tasks:
            return
        import ray  # noqa: PLC0415

        for reference, _ in self._tasks.values():
            ray.cancel(reference, force=at_once)


def _joined(workers: int) -> Any:  # noqa: ANN401 -- a module without types
    import ray  # noqa: PLC0415

    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **({} if os.environ.get("RAY_ADDRESS") else own))
    finally:
        for number, handler in before.items():  # how the study ends is not up to Ray
            signal.signal(number, handler)
    return ray


def _work_on(command: list[str], log: str, folder: str) -> int:
    """Run in a process of Ray's: carry a worker until it ends, or until the task is canceled."""
    with open_regular(Path(log), "ab") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            start_new_session=True,
            stdin=subprocess.PIPE,  # when this process dies, the worker saves and ends
            stdout=file,
            stderr=file,
        )
    try:
        while process.poll() is None:
            time.sleep(_PAUSE)
    except BaseException:  # canceled
        process.terminate()
        process.wait()
        raise
    return process.returncode


def _note(log: Path, error: Exception) -> None:
    with open_regular(log, "ab") as file:
        file.write(f"{printable(error)}\n".encode())
