"""The training phase: the cell that was found in a large network, trained from scratch and tested once."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.phases.training.cells import GroupCells
    from smallgroup.phases.training.config import TrainingConfig
    from smallgroup.phases.training.group_job import GroupJob
    from smallgroup.phases.training.job import TrainingJob
    from smallgroup.phases.training.model import TrainedModel, read_model
    from smallgroup.phases.training.mutual import MutualJob
    from smallgroup.phases.training.mutual_result import MutualResult
    from smallgroup.phases.training.peers import Peers
    from smallgroup.phases.training.result import TrainResult
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cells": ["GroupCells"],
            "config": ["TrainingConfig"],
            "group_job": ["GroupJob"],
            "job": ["TrainingJob"],
            "model": ["TrainedModel", "read_model"],
            "mutual": ["MutualJob"],
            "mutual_result": ["MutualResult"],
            "peers": ["Peers"],
            "result": ["TrainResult"],
        },
    )

__all__ = [
    "GroupCells",
    "GroupJob",
    "MutualJob",
    "MutualResult",
    "Peers",
    "TrainResult",
    "TrainedModel",
    "TrainingConfig",
    "TrainingJob",
    "read_model",
]
