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
    """In all, in spaces that count them so."""
    cells_per_stage: int = 5
    """In spaces that count them so."""
    batch: int = 50
    """Of each of the three kinds of images."""
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
        """The size here that says how deep the supernet is."""
        own = definition_of(self.space).config.model_fields
        return next((key for key in DEPTHS if key in own), None)

    @property
    def section(self) -> "SpaceConfig":
        """The space at this size; what else it has is as in the recipe of the paper."""
        keys = {"name": self.space, "channels": self.channels}
        if self.depth is not None:
            keys[self.depth] = getattr(self, self.depth)
        return resolve({"recipe": "paper", "space": keys}).space

    @property
    def name(self) -> str:
        """All sizes in a line."""
        depths = {"cells": f"{self.cells} cells, ", "cells_per_stage": f"N={self.cells_per_stage}, "}
        network = f"C={self.channels}, {depths.get(self.depth or '', '')}batch {self.batch}, {self.size}x{self.size}"
        return f"{self.method} in {self.space}, {network}, K={self.learners}, {self.hypergradient}"

    @property
    def sizes(self) -> dict[str, Any]:
        """Those that play a part."""
        return {name: value for name, value in vars(self).items() if name == self.depth or name not in DEPTHS}

    def plain(self) -> "Call":
        """The textbook step."""
        from smallgroup.bench.group_calls import plain_step  # noqa: PLC0415 -- it loads torch

        return plain_step(self)

    def fast(self) -> "Call":
        """The learners and the group of a search."""
        from smallgroup.bench.group_calls import fast_step  # noqa: PLC0415 -- it loads torch

        return fast_step(self)
