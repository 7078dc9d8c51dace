"""One loop for every long job: progress, metrics, checkpoints, resumption, signals."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.runner.identity import check_identity
    from smallgroup.runner.metrics import Metrics, current, read_current_rows, read_rows
    from smallgroup.runner.place import CHECKPOINTS
    from smallgroup.runner.runner import Interrupted, Runner, check_folder
    from smallgroup.runner.watcher import Job, Watcher
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "identity": ["check_identity"],
            "metrics": ["Metrics", "current", "read_current_rows", "read_rows"],
            "place": ["CHECKPOINTS"],
            "runner": ["Interrupted", "Runner", "check_folder"],
            "watcher": ["Job", "Watcher"],
        },
    )

__all__ = [
    "CHECKPOINTS",
    "Interrupted",
    "Job",
    "Metrics",
    "Runner",
    "Watcher",
    "check_folder",
    "check_identity",
    "current",
    "read_current_rows",
    "read_rows",
]
