"""Who labels, and whose labels are learned from: the paper's setting, its ablations and the controls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from smallgroup.runtime.checks import check_choice, check_number

if TYPE_CHECKING:
    from torch import Tensor

    from smallgroup.group.learner import Labeler

LabelsFrom = Literal["v", "w", "w-joint"]
Targets = Literal["peers", "own", "uniform"]


@dataclass(frozen=True)
class Teaching:
    """The switches of stage 2 for a group of K learners.

    | setting                                    | switches                                            |
    |--------------------------------------------|-----------------------------------------------------|
    | the paper                                  | the defaults                                        |
    | ablation 1, without first stage            | labels_from="w": the labels are constants           |
    | the same, joint form of Eq. (12)           | labels_from="w-joint"                               |
    | ablation 2, separate stages, Eqs. (13, 14) | labels_from=[one frozen labeler per learner]       |
    | ablation 3, without human labels, Eq. (15) | human_labels=False: no lambda                       |
    | control: self-taught                       | targets="own"                                       |
    | control: label smoothing only              | targets="uniform"                                   |
    | control: independent learners              | lam=0                                               |
    | deep mutual learning                       | labels_from="w", architecture={}, unlabeled=x       |
    """

    size: int
    lam: float
    labels_from: "LabelsFrom | Sequence[Labeler]" = "v"
    targets: Targets = "peers"
    human_labels: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a group needs at least one learner, but got none")
        check_number("lam", self.lam)
        if isinstance(self.labels_from, str):
            check_choice("labels_from", self.labels_from, get_args(LabelsFrom), " or a list of frozen labelers")
        elif not isinstance(self.labels_from, Sequence) or not all(callable(label) for label in self.labels_from):
            raise TypeError(
                "labels_from must be one of v, w, w-joint or a list of frozen labelers (functions of the inputs), "
                f"but got {type(self.labels_from).__name__}"
            )
        elif len(self.labels_from) != self.size:
            raise ValueError(
                f"labels_from must name one frozen labeler per learner, "
                f"but got {len(self.labels_from)} for {self.size} learners"
            )
        check_choice("targets", self.targets, get_args(Targets))
        if self.targets != "peers" and self.labels_from == "w-joint":
            raise ValueError(f'labels_from="w-joint" needs targets="peers", but got targets="{self.targets}"')
        if self.targets == "uniform" and self.labels_from != "v":
            raise ValueError(f'targets="uniform" uses no labeler, but got labels_from={self.labels_from!r}')
        if not self.human_labels and not self.active:
            raise ValueError(
                "without human labels stage 2 needs labels of peers: at least two learners must be given, "
                f"but got {self.size}"
            )

    @property
    def weight(self) -> float:
        """The factor of the pseudo-label term in stage 2: lambda, or 1 where it stands alone."""
        return self.lam if self.human_labels else 1.0

    @property
    def active(self) -> bool:
        """Whether stage 2 has a pseudo-label term at all."""
        return self.weight > 0 and (self.size > 1 or self.targets != "peers")

    @property
    def trains_v(self) -> bool:
        """Whether there is a first stage: V is touched only if somebody learns from its labels."""
        return self.active and self.labels_from == "v" and self.targets != "uniform"

    @property
    def joint(self) -> bool:
        """Whether W is stepped on both of its roles, pupil and labeler."""
        return self.active and self.labels_from == "w-joint"

    @property
    def labels_move(self) -> bool:
        """Whether stage 3 differentiates through the labels; otherwise they are constants."""
        return self.trains_v or self.joint

    @property
    def mass(self) -> int:
        """What the labels a learner learns from add up to per image; the controls keep that of K - 1 peers."""
        return max(self.size - 1, 1)

    def received(self, k: int, tables: "Sequence[Tensor]") -> "Tensor":
        """Return what reaches learner k of a table of every learner: the labels t_k, or the sensitivities S_k.

        One sum for both, because j learns from k exactly if k learns from j, and with the same weight.
        """
        return self.mass * tables[k] if self.targets == "own" else self.from_peers(k, tables)

    def from_peers(self, k: int, tables: "Sequence[Tensor]") -> "Tensor":
        """Return the sum over j != k in learner order: never a total minus one, which would lose bits."""
        first, *others = [table for j, table in enumerate(tables) if j != k]
        for table in others:
            first = first + table.to(first)
        return first

    def teachers_of(self, k: int) -> list[int]:
        """Return the learners from whom k learns: the same as its pupils."""
        return self.pupils_of(k)

    def pupils_of(self, k: int) -> list[int]:
        """Return the learners that learn from the labels of k."""
        return [k] if self.targets == "own" else [j for j in range(self.size) if j != k]
