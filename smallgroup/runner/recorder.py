"""What a run writes down beside its metrics: what it is, and where its time goes. None of it is needed to go on."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smallgroup.runner.metrics import read_rows
from smallgroup.runner.place import FACTS, TIMES
from smallgroup.runner.watcher import Job, Watcher
from smallgroup.runtime.files import open_regular, write_whole
from smallgroup.runtime.memory import memory_in_use, peak_memory


@dataclass
class Recorder(Watcher):
    """Writes `facts.json` when a run begins and a line of `times.jsonl` with every checkpoint.

    Times differ from run to run, which is why they are not in the metrics. A resumed run cuts off what came after its
    checkpoint, here as there. A disk that is full must not end a run through what it can do without: then it is silent.
    """

    folder: Path
    facts: Callable[[], Mapping[str, Any]]
    files: Callable[[], Mapping[str, str]] = dict
    """Texts by file name, which are written again after every epoch."""
    seconds: Callable[[], Mapping[str, float]] = dict
    """Seconds so far, by part of the work."""
    _step: int = 0
    _start: float = field(default_factory=time.monotonic)
    _before: Mapping[str, float] = field(default_factory=dict)

    def resumed(self, step: int) -> None:
        """Restart the clock: times count from the resumed step on."""
        self._step = step

    def started(self, job: Job) -> None:  # noqa: ARG002
        """Write what the run is; forget the times of what is not part of it."""
        self._start, self._before = time.monotonic(), dict(self.seconds())
        if not self._step or not (self.folder / FACTS).exists():  # they are those of its beginning
            self._write(FACTS, json.dumps({"schema": 1, **self.facts()}, indent=1) + "\n")
        try:
            kept = [row for row in read_rows(self.folder / TIMES) if row.get("step", 0) <= self._step]
        except (ValueError, TypeError, OSError):
            kept = []
        self._write(TIMES, "".join(json.dumps(row) + "\n" for row in kept if self._step))

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:  # noqa: ARG002
        """Write the files of an epoch other than its rows."""
        try:
            made = self.files()
        except (OSError, ValueError):  # an image that cannot be read any more, say
            return
        for name, text in made.items():
            self._write(name, text)

    def saved(self, step: int) -> None:
        """Record the time since the last line by part; the rest is what belongs to no part."""
        now, so_far = time.monotonic(), dict(self.seconds())
        parts = {name: round(value - self._before.get(name, 0.0), 4) for name, value in so_far.items()}
        rest = max(0.0, now - self._start - sum(parts.values()))
        row = {"step": step, "seconds": {**parts, "rest": round(rest, 4)}}
        row |= {"memory_mb": round(memory_in_use() / 2**20, 1), "peak_memory_mb": round(peak_memory() / 2**20, 1)}
        self._start, self._before = now, so_far
        with suppress(OSError, ValueError), open_regular(self.folder / TIMES, "ab") as file:
            file.write(f"{json.dumps(row)}\n".encode())

    def _write(self, name: str, text: str) -> None:
        with suppress(OSError):
            write_whole(self.folder / name, text)
