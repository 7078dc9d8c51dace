"""One loop for every long job: progress, metrics, checkpoints, resumption, signals."""

from smallgroup.runner.metrics import Metrics, read_rows
from smallgroup.runner.runner import CHECKPOINTS, Interrupted, Job, Runner, Watcher, check_identity

__all__ = ["CHECKPOINTS", "Interrupted", "Job", "Metrics", "Runner", "Watcher", "check_identity", "read_rows"]
