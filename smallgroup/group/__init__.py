"""Small-group learning: three-level optimization for any set of differentiable learners.

No image, cell or file in here: a learner is a pure function of (weights, architecture, inputs), and
learners meet only in two small tables per iteration: what they hand to their peers, and how sensitive they are to what
they are handed. (The joint form of tasks other than classification needs outputs and their changes too.) See
`docs/hypergradient.md` for the mathematics.
"""

from typing import TYPE_CHECKING

from smallgroup.runtime import Phase
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.group.errors import NonFiniteError, PeerError
    from smallgroup.group.exchange import Exchange, LocalExchange
    from smallgroup.group.group import SmallGroup
    from smallgroup.group.learner import Apply, Labeler, Learner
    from smallgroup.group.module_apply import ModuleApply
    from smallgroup.group.optimizers import Optimizers, step_derivative
    from smallgroup.group.ranks import RankExchange
    from smallgroup.group.report import LearnerReport, StepReport
    from smallgroup.group.task import Task
    from smallgroup.group.tasks import Classification, DenseClassification, GaussianRegression, MultiLabel, Regression
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "errors": ["NonFiniteError", "PeerError"],
            "exchange": ["Exchange", "LocalExchange"],
            "group": ["SmallGroup"],
            "learner": ["Apply", "Labeler", "Learner"],
            "module_apply": ["ModuleApply"],
            "optimizers": ["Optimizers", "step_derivative"],
            "ranks": ["RankExchange"],
            "report": ["LearnerReport", "StepReport"],
            "task": ["Task"],
            "tasks": ["Classification", "DenseClassification", "GaussianRegression", "MultiLabel", "Regression"],
        },
    )

__all__ = [
    "Apply",
    "Classification",
    "DenseClassification",
    "Exchange",
    "GaussianRegression",
    "Labeler",
    "Learner",
    "LearnerReport",
    "LocalExchange",
    "ModuleApply",
    "MultiLabel",
    "NonFiniteError",
    "Optimizers",
    "PeerError",
    "Phase",
    "RankExchange",
    "Regression",
    "SmallGroup",
    "StepReport",
    "Task",
    "step_derivative",
]
