"""Where learners meet: the only place that would have to know if some of them are computed by another process."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

Tables = Sequence[Tensor]
"""What one learner shows the others at one meeting, tables of one shape: labels, or sensitivities."""


class Exchange(Protocol):
    """The placement of learners on processes, and the exchange of their tables.

    A group meets three times per step: where labels are made, before the cross terms, and before anything is kept. All
    processes of a group must come to the same meetings. One that fails before a meeting tells the others there, and
    then the step fails on all of them.
    """

    @property
    def size(self) -> int:
        """Return the number of learners in the whole group."""
        ...

    @property
    def mine(self) -> Sequence[int]:
        """Return the learners that are computed in this process, in ascending order."""
        ...

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Return the tables of all learners in their order, given those of `mine`; None: a learner has none.

        Raises what another process has failed with.
        """
        ...

    def agree(self, failure: BaseException | None) -> None:
        """End a step: pass None to keep it. Raises what another process has failed with before this one."""
        ...


class LocalExchange:
    """All learners in this process: nothing is sent."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.mine = range(size)

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Return the tables that are given."""
        return [own[k] for k in self.mine]

    def agree(self, failure: BaseException | None) -> None:
        """Do nothing: there is no other process to tell."""


def check_exchange(exchange: Exchange, size: int) -> None:
    """Refuse an exchange that was made for another number of learners."""
    if exchange.size != size:
        raise ValueError(f"exchange must be made for the {size} learners of the group, but it is for {exchange.size}")
