"""The whole job: search, play-off, training from scratch, baselines beside it, and a verdict."""

from smallgroup.pipeline.parts import LEAST_SHARE, OVERHEAD, PLAY_OFF_SHARE, SEARCH_SHARE
from smallgroup.pipeline.plan import RunPlan
from smallgroup.pipeline.result import BaselineComparison, RunResult
from smallgroup.pipeline.whole import run, says_answer

__all__ = [
    "LEAST_SHARE",
    "OVERHEAD",
    "PLAY_OFF_SHARE",
    "SEARCH_SHARE",
    "BaselineComparison",
    "RunPlan",
    "RunResult",
    "run",
    "says_answer",
]
