"""Units are carried out by processes of one thread, side by side; those that are done are not repeated."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smallgroup.bench.outcome import clothing, store
from smallgroup.bench.outcome.plan import OutcomeTable, Unit
from smallgroup.bench.outcome.tasks import CLOTHING
from smallgroup.runner.signals import watched

PAUSE = 0.5
UnitWatch = Callable[[Unit, str], None]
"""Is told that a unit begins, ends or fails."""


def prepare(folder: Path, tables: Iterable[OutcomeTable]) -> None:
    """Draw the clothes, if a table needs them and they are not there."""
    if any(CLOTHING in table.task.dataset for table in tables) and not (folder / CLOTHING).exists():
        clothing.write_folder(folder / CLOTHING)


def waiting(folder: Path, tables: Sequence[OutcomeTable]) -> list[Unit]:
    """Return units that are not done yet, in the order in which they are carried out."""
    return [unit for table in tables for unit in table.units() if store.read(folder, unit) is None]


@dataclass
class Crew:
    """The processes at work. Asked to end, they are ended: a unit that was not done is begun anew another time."""

    folder: Path
    watch: UnitWatch
    quick: bool = False
    at_work: dict[Unit, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    failed: list[Unit] = field(default_factory=list)

    def carry_out(self, units: Sequence[Unit], workers: int) -> bool:
        """Carry out all units; return whether none failed and nobody asked to stop."""
        left = list(units)
        with watched() as ending:
            try:
                while (left or self.at_work) and ending.signal is None:
                    self._collect()
                    while len(self.at_work) < workers and (unit := self._next(left)) is not None:
                        left.remove(unit)
                        self._begin(unit)
                    if not self.at_work:
                        break  # what is left needs outcomes that failed
                    time.sleep(PAUSE)
            finally:
                for process in self.at_work.values():
                    process.terminate()
                    process.wait()
        return not self.failed and not left and ending.signal is None

    def _next(self, left: Sequence[Unit]) -> Unit | None:
        """Return the first unit that can begin: the other arms need to know what `run` cost."""
        return next((unit for unit in left if unit.arm == "run" or self._run_is_done(unit)), None)

    def _run_is_done(self, unit: Unit) -> bool:
        return store.read(self.folder, Unit(unit.task, "run", unit.seed)) is not None

    def _begin(self, unit: Unit) -> None:
        self.watch(unit, "begins")
        command = [sys.executable, "-m", "smallgroup.bench.outcome.unit", str(self.folder)]
        command += [unit.task.name, unit.arm, str(unit.seed), *(["--quick"] if self.quick else [])]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.at_work[unit] = subprocess.Popen(command, env=one_thread, stdout=subprocess.DEVNULL)

    def _collect(self) -> None:
        for unit, process in list(self.at_work.items()):
            if process.poll() is None:
                continue
            del self.at_work[unit]
            if process.returncode == 0:
                self.watch(unit, "is done")
            else:
                self.failed.append(unit)
                self.watch(unit, f"failed with code {process.returncode}")
