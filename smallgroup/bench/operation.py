"""An operation of a space: what is measured of it. It is computed in `operations`, which loads torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smallgroup.runtime.checks import check_choice, check_counts
from smallgroup.spaces import definition_of, definitions

if TYPE_CHECKING:
    from smallgroup.bench.timing import Call

QUICK = {"channels": 8, "batch": 4, "size": 16}


@dataclass(frozen=True, kw_only=True)
class MeasuredOperation:
    """One operation on an edge between two nodes: its output, and the gradients of its input and its weights."""

    space: str
    operation: str
    stride: int
    channels: int = 16
    batch: int = 32
    size: int = 32

    def __post_init__(self) -> None:
        check_choice("space", self.space, [one.name for one in definitions() if one.strides])
        check_counts(channels=self.channels, batch=self.batch, size=self.size)
        if self.stride > 1 and self.channels % definition_of(self.space).width_step:
            raise ValueError(f"channels must be even where a skip connection halves the size, but got {self.channels}")

    @property
    def name(self) -> str:
        """Return space, operation and stride in one line."""
        return f"{self.space}, {self.operation}, stride {self.stride}"

    @property
    def sizes(self) -> dict[str, Any]:
        """Return all sizes: each of them changes the time."""
        return dict(vars(self))

    def plain(self) -> "Call":
        """Return a call of the operation on images in the default layout, NCHW."""
        from smallgroup.bench.operations import on_an_edge  # noqa: PLC0415 -- it loads torch

        return on_an_edge(self, channels_last=False)

    def fast(self) -> "Call":
        """Return a call of the operation on images with channels last."""
        from smallgroup.bench.operations import on_an_edge  # noqa: PLC0415 -- it loads torch

        return on_an_edge(self, channels_last=True)


def every_operation(**sizes: int) -> list[MeasuredOperation]:
    """Return all operations but `none`, of the spaces that name the strides at which they occur."""
    return [
        MeasuredOperation(space=space.name, operation=name, stride=stride, **sizes)
        for space in definitions()
        if space.strides
        for name in next(iter(space.kinds.values())).operations
        for stride in space.strides
        if name != "none"
    ]
