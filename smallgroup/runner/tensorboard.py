"""Event files for TensorBoard, for those who prefer it: the same numbers as in metrics.jsonl."""

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from smallgroup.runner.watcher import Watcher

EVENTS = "tensorboard"
"""The folder of the event files within a run."""


def check_installed() -> None:
    """Refuse early what could not be written later."""
    if find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard needs the package tensorboard, which is not installed: pip install 'smallgroup[tensorboard]'"
        )


class EventFiles(Watcher):
    """Writes every number of every row; a resumed run takes back what came after its checkpoint."""

    def __init__(self, folder: Path) -> None:
        check_installed()
        self.folder, self._resumed = folder, False
        self._writer: Any = None

    def resumed(self, step: int) -> None:  # noqa: ARG002
        """Replace events from the first resumed epoch on."""
        self._resumed = True

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows as scalars, by learner."""
        for row in rows:
            epoch = int(row["epoch"])
            if self._writer is None:
                self._writer = _writer(self.folder, epoch if self._resumed else None)
            whose = f"learner {row['learner']}/" if "learner" in row else ""
            for name, value in numbers_of(row):
                self._writer.add_scalar(f"{whose}{name}", value, epoch)
        if self._writer is not None:
            self._writer.flush()


def numbers_of(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a row that is no list, by name; numbers of sections with the name of the section."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{prefix}{name}.")
        elif f"{prefix}{name}" in ("epoch", "learner") or isinstance(value, bool):
            continue
        elif isinstance(value, int | float) and math.isfinite(value):
            yield f"{prefix}{name}", float(value)


def _writer(folder: Path, purge_step: int | None) -> Any:  # noqa: ANN401 -- of a package that may not be there
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

    return SummaryWriter(str(folder), purge_step=purge_step)
