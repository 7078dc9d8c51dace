"""A step of a group of learners in a search space: what it is. It is computed in `group_calls`, which loads torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from smallgroup.config import resolve
from smallgroup.methods import METHODS
from smallgroup.phases.search.config import SearchConfig
from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces import SPACES, definition_of

if TYPE_CHECKING:
    from smallgroup.bench.timing import Call
    from smallgroup.spaces.config import SpaceConfig

HYPERGRADIENTS: tuple[str, ...] = get_args(SearchConfig.model_fields["hypergradient"].annotation)
DEPTHS = ("cells", "cells_per_stage")
"""Keys by which spaces say how deep a supernet is; one that has none of them has the depth of its default."""
_MOST = 10_000
"""Most learners and images; no step this large fits into memory."""


@dataclass(frozen=True, kw_only=True)
class GroupStep:
    """V, W and A of every learner move once, as in a search with default settings, on random images."""

    space: str = "darts"
    method: str = "darts"
    learners: int = 2
    hypergradient: str = "first-order"
    channels: int = 16
    cells: int = 8
    """Cells in all, in spaces with the key `cells`."""
    cells_per_stage: int = 5
    """Cells of each stage, in spaces with the key `cells_per_stage`."""
    batch: int = 50
    """Images in each of the three batches."""
    size: int = 32
    """Height and width of an image."""

    def __post_init__(self) -> None:
        SPACES.check_name(self.space)
        check_choice("method", self.method, tuple(METHODS))
        check_choice("hypergradient", self.hypergradient, HYPERGRADIENTS)
        check_counts(learners=self.learners, batch=self.batch)
        if max(self.learners, self.batch) > _MOST:
            raise ValueError(f"learners and batch must be at most {_MOST}, but got {self.learners} and {self.batch}")
        check_counts(channels=self.channels)
        check_counts(image_size=self.size, at_least=4)
        assert self.section.name == self.space  # resolved: sizes that the space does not take are refused

    @property
    def depth(self) -> str | None:
        """Return the key that says how deep the supernet of the space is; None: it has no such key."""
        own = definition_of(self.space).config.model_fields
        return next((key for key in DEPTHS if key in own), None)

    @property
    def section(self) -> "SpaceConfig":
        """Return the config of the space at this size; all other keys are those of the recipe `paper`."""
        keys = {"name": self.space, "channels": self.channels}
        if self.depth is not None:
            keys[self.depth] = getattr(self, self.depth)
        return resolve({"recipe": "paper", "space": keys}).space

    @property
    def name(self) -> str:
        """Return all sizes in one line, the name of the row."""
        depths = {"cells": f"{self.cells} cells, ", "cells_per_stage": f"N={self.cells_per_stage}, "}
        network = f"C={self.channels}, {depths.get(self.depth or '', '')}batch {self.batch}, {self.size}x{self.size}"
        return f"{self.method} in {self.space}, {network}, K={self.learners}, {self.hypergradient}"

    @property
    def sizes(self) -> dict[str, Any]:
        """Return the sizes that change the step: those of other spaces are left out."""
        return {name: value for name, value in vars(self).items() if name == self.depth or name not in DEPTHS}

    def plain(self) -> "Call":
        """Return a call that takes the step in textbook form."""
        from smallgroup.bench.group_calls import plain_step  # noqa: PLC0415 -- it loads torch

        return plain_step(self)

    def fast(self) -> "Call":
        """Return a call that takes the step as a search does."""
        from smallgroup.bench.group_calls import fast_step  # noqa: PLC0415 -- it loads torch

        return fast_step(self)
