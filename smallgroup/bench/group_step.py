"""A step of a group of learners in a search space: what it is. It is computed in `group_calls`, which loads torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from smallgroup.methods import METHODS
from smallgroup.phases.search.config import SearchConfig
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces import MAIN_SPACES
from smallgroup.spaces.darts.definition import DartsDefinition

if TYPE_CHECKING:
    from smallgroup.bench.timing import Call

HYPERGRADIENTS: tuple[str, ...] = get_args(SearchConfig.model_fields["hypergradient"].annotation)
_MOST = 10_000
"""Far beyond any use."""


@dataclass(frozen=True, kw_only=True)
class GroupStep:
    """V, W and A of every learner move once, as in a search with default settings, on random images."""

    space: str = "darts"
    method: str = "darts"
    learners: int = 2
    hypergradient: str = "first-order"
    channels: int = 16
    cells: int = 8
    """In all, in the DARTS space."""
    cells_per_stage: int = 5
    """In NAS-Bench-201."""
    batch: int = 50
    """Of each of the three kinds of images."""
    size: int = 32
    """Height and width of an image."""

    def __post_init__(self) -> None:
        check_choice("space", self.space, MAIN_SPACES)
        check_choice("method", self.method, tuple(METHODS))
        check_choice("hypergradient", self.hypergradient, HYPERGRADIENTS)
        check_counts(learners=self.learners, batch=self.batch)
        if max(self.learners, self.batch) > _MOST:
            raise ValueError(f"learners and batch must be at most {_MOST}, but got {self.learners} and {self.batch}")
        check_counts(channels=self.channels)
        check_counts(image_size=self.size, at_least=4)
        if self.space == DartsDefinition.name:
            check_counts(cells=self.cells, at_least=3)
        else:
            check_counts(cells_per_stage=self.cells_per_stage)

    @property
    def name(self) -> str:
        """All sizes in a line."""
        depth = f"{self.cells} cells" if self.space == DartsDefinition.name else f"N={self.cells_per_stage}"
        network = f"C={self.channels}, {depth}, batch {self.batch}, {self.size}x{self.size}"
        return f"{self.method} in {self.space}, {network}, K={self.learners}, {self.hypergradient}"

    @property
    def sizes(self) -> dict[str, Any]:
        """Those that play a part."""
        unused = "cells_per_stage" if self.space == DartsDefinition.name else "cells"
        return {name: value for name, value in vars(self).items() if name != unused}

    def plain(self) -> "Call":
        """The textbook step."""
        from smallgroup.bench.group_calls import plain_step  # noqa: PLC0415 -- it loads torch

        return plain_step(self)

    def fast(self) -> "Call":
        """The learners and the group of a search."""
        from smallgroup.bench.group_calls import fast_step  # noqa: PLC0415 -- it loads torch

        return fast_step(self)
