"""Where learners meet: the only place that would have to know if some of them are computed by another process."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

Tables = Sequence[Tensor]
"""What one learner shows the others at one meeting, tables of one shape: labels, or sensitivities."""


class Exchange(Protocol):
    """Who is computed here, and how what they show each other gets to everybody.

    A group meets three times per step: where labels are made, before the cross terms, and before anything is kept. All
    processes of a group must come to the same meetings. One that fails before a meeting tells the others there, and
    then the step fails on all of them.
    """

    @property
    def size(self) -> int:
        """The number of learners of the whole group."""
        ...

    @property
    def mine(self) -> Sequence[int]:
        """The learners that are computed here, in ascending order."""
        ...

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Return the tables of all learners in their order, given those of `mine`; None: a learner has none.

        Raises what another process has failed with.
        """
        ...

    def agree(self, failure: BaseException | None) -> None:
        """End a step: None says that it can be kept. Raises what another process has failed with before this one."""
        ...


class LocalExchange:
    """All learners in this process: nothing travels."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.mine = range(size)

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Return the tables that are given."""
        return [own[k] for k in self.mine]

    def agree(self, failure: BaseException | None) -> None:
        """Do nothing: nobody else is to be told."""


def check_exchange(exchange: Exchange, size: int) -> None:
    """Refuse an exchange that was made for another number of learners."""
    if exchange.size != size:
        raise ValueError(f"exchange must be made for the {size} learners of the group, but it is for {exchange.size}")
