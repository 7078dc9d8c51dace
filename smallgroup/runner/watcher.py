"""Protocols of the loop: the jobs it runs, and the watchers that it calls."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Job(Protocol):
    """Work in steps that can be saved and taken up again between any two of them."""

    @property
    def step(self) -> int:
        """Number of steps taken so far."""
        ...

    @property
    def finished(self) -> bool:
        """Whether there is no step left."""
        ...

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """Take a step; where it ends an epoch, give the rows of metrics of that epoch.

        A step that fails changes nothing.
        """
        ...

    def state(self) -> "tuple[Mapping[str, Tensor], Mapping[str, Any]]":
        """Return everything that the next step depends on: tensors by name, and a record that JSON can hold."""
        ...

    def load_state(self, tensors: "Mapping[str, Tensor]", record: Mapping[str, Any]) -> None:
        """Restore what `state` returned when the checkpoint was written."""
        ...

    def leave_out(self) -> bool:
        """Go on as if the next step had been taken, which failed; False if it was no step that failed."""
        ...

    def close(self) -> None:
        """Let go of processes and files; called when a run ends, however it ends."""
        ...


class Watcher:
    """Callbacks for run events; every method does nothing by default."""

    def told(self, sentence: str) -> None:
        """Receive a warning, such as that a checkpoint is damaged."""

    def resumed(self, step: int) -> None:
        """React to a run that is resumed after this many steps."""

    def started(self, job: Job) -> None:
        """React to the start of the job, once before the first step."""

    def stepped(self, step: int, seconds: float) -> None:
        """React to a step; `seconds` is the time of the run so far."""

    def ended_epoch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """React to the end of each epoch."""

    def saved(self, step: int) -> None:
        """React to a written checkpoint."""
