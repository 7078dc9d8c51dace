"""One loop for every long job: progress, metrics, checkpoints, resumption, signals."""

from smallgroup.runner.metrics import Metrics, read_rows
from smallgroup.runner.runner import Interrupted, Job, Runner, Watcher

__all__ = ["Interrupted", "Job", "Metrics", "Runner", "Watcher", "read_rows"]
