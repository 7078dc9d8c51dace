"""What a search space is: kinds of cells with edges and operations, a supernet that mixes them, rules for the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.kinds import Kind, Rule

Evaluated = Literal["all", "active", "detached"]
"""Which operations of an edge run: all; those whose mixing weight is not zero; or all, the others without gradient."""

Transform = Callable[[str, Tensor, int, int], Tensor]
"""(operation, its output, cell, edge) -> what takes the output's place."""

Streams = Callable[[int, int, str], torch.Generator]
"""(cell, edge, operation) -> the generator of an operation that is random, always at its beginning."""


def _same_numbers(cell: int, edge: int, operation: str) -> torch.Generator:
    """Return a generator that always begins with the same numbers, for operations outside of a search."""
    return stream("operation", cell, edge, operation)


@dataclass(frozen=True)
class Choice:
    """The row of a mixture that belongs to one edge."""

    weights: Tensor
    """Weights of the operations of an edge, [operations]."""
    active: tuple[bool, ...]
    """Operations whose weight is not zero; where all run, all of them, because then the weights need not be known."""
    kept: tuple[bool, ...]
    """Operations that have not been removed."""
    evaluate: Evaluated
    transform: Callable[[str, Tensor], Tensor] | None
    settings: Tensor | None = None
    """What else the edges of a method take."""
    transformed: frozenset[str] | None = None
    """Operations whose output the transform changes; None: all, if there is one."""
    stream: Callable[[str], torch.Generator] | None = None
    """Random streams by operation, for those that draw numbers."""

    def is_transformed(self, operation: str) -> bool:
        """Return whether the output of an operation goes through the transform."""
        return self.transform is not None and (self.transformed is None or operation in self.transformed)


class Mixture:
    """The weights by which the cells of one kind mix the operations of their edges, and the edges of their nodes."""

    def __init__(
        self,
        weights: Tensor,
        *,
        edges: Tensor | None = None,
        evaluate: Evaluated = "all",
        transform: Transform | None = None,
        settings: Tensor | None = None,
    ) -> None:
        if not isinstance(weights, Tensor) or weights.dim() != 2:
            got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise ValueError(f"weights of a mixture must be a tensor [edges, operations], but got {got}")
        self.weights = weights
        """[edges, operations]: the weight of each operation on each edge."""
        self.edges = edges
        """[edges]: a factor for each edge; None is one."""
        self.settings = settings
        """[edges, ...]: what else the edges of a method take, such as the weight of a connection beside the choice."""
        self.evaluate = evaluate
        self.transform = transform
        self.transformed: frozenset[str] | None = None
        """Operations whose output the transform changes; None: all, if there is one."""
        self.kept: list[list[bool]] | None = None
        """[edges, operations]: which operations have not been removed; None is all. The others never run."""
        self.decided: list[list[bool]] | None = None
        """[edges, operations]: whose weight is not zero, if somebody knows it without a look at the values."""
        self.streams: Streams = _same_numbers
        """Where operations that are random have their numbers from."""
        self._rows = weights.unbind()

    @cached_property
    def _active(self) -> list[list[bool]]:
        """One look at the values for all cells of the kind; on a GPU it waits, so that it is not made in vain."""
        if self.evaluate == "all":
            return [[True] * self.weights.shape[1]] * self.weights.shape[0]
        if self.decided is not None:
            return self.decided
        found: list[list[bool]] = (self.weights.detach() != 0).tolist()
        return found

    def runs(self) -> list[list[bool]] | None:
        """Return which operations of each edge run, [edges, operations]; None: all."""
        if self.evaluate != "active":
            return self.kept
        if self.kept is None:
            return self._active
        return [[a and b for a, b in zip(*rows, strict=True)] for rows in zip(self._active, self.kept, strict=True)]

    def choice(self, cell: int, edge: int) -> Choice:
        """Return what edge number `edge` of cell number `cell` is to do."""
        transform = self.transform
        bound = None if transform is None else lambda name, y: transform(name, y, cell, edge)
        active = tuple(self._active[edge])
        kept = (True,) * len(active) if self.kept is None else tuple(self.kept[edge])
        settings = None if self.settings is None else self.settings[edge]
        numbers = partial(self.streams, cell, edge)
        return Choice(self._rows[edge], active, kept, self.evaluate, bound, settings, self.transformed, numbers)

    def scaled(self, edge: int, output: Tensor) -> Tensor:
        """Return the output of an edge times the factor of that edge."""
        return output if self.edges is None else self.edges[edge] * output


Masks = Mapping[str, Tensor]
"""By kind, [edges, operations]: which operations are still there; a kind that is not named has all of them."""


@dataclass(frozen=True)
class EdgeParts:
    """The parts from which a mixed edge is built."""

    operations: tuple[str | None, ...]
    """One per column of the architecture; None has been removed."""
    channels: int
    stride: int
    make: Callable[[str, int, int], nn.Module]
    """Makes the module of an operation: (operation, channels, stride) -> module."""
    outputs: int | None = None
    """Channels of the output; None: as many as `channels`."""

    def check_keeps_channels(self, who: str) -> None:
        """Refuse an edge that changes the number of channels, for methods that pass some of them by."""
        if self.outputs not in (None, self.channels):
            raise ValueError(
                f"{who} needs edges that keep the number of channels, but one leads from {self.channels} to "
                f"{self.outputs}"
            )


EdgeBuilder = Callable[[EdgeParts], nn.Module]
"""The module it gives is called with (inputs, Choice)."""


class Space(Protocol):
    """A search space at a given size."""

    @property
    def name(self) -> str:
        """Return the name that the command line uses for the space."""
        ...

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Return the kinds of cells, each with its own architecture."""
        ...

    @property
    def images(self) -> ImageSpec:
        """Return size, channels and number of classes of its images."""
        ...

    def supernet(self, build_edge: EdgeBuilder, masks: Masks) -> nn.Module:
        """Build a module on the meta device, without buffers, that maps (images, {kind: Mixture}) to logits."""
        ...

    def derive(self, scores: Mapping[str, Tensor], rule: Rule) -> Genotype:
        """Return the genotype that [edges, operations] scores ask for; -inf marks removed operations."""
        ...

    def chosen(self, genotype: Any) -> dict[str, Tensor]:  # noqa: ANN401
        """Return by kind [edges, operations]: one for the operations of a genotype, zero for the rest."""
        ...


def remaining(kind: Kind, mask: Tensor | None, edge: int) -> tuple[str | None, ...]:
    """Return the operations of an edge, None where it offers none or the mask has removed it."""
    if mask is not None and tuple(mask.shape) != kind.shape:
        raise ValueError(f"a mask must have shape {kind.shape}, but it has {tuple(mask.shape)}")
    offered = kind.offered(edge)
    kept = tuple(
        name if name in offered and (mask is None or bool(mask[edge, i])) else None
        for i, name in enumerate(kind.operations)
    )
    if not any(kept):
        raise ValueError(f"a mask must leave every edge an operation, but edge {edge} has none left")
    return kept


def checked_scores(kinds: Mapping[str, Kind], scores: Mapping[str, Tensor]) -> dict[str, list[list[float]]]:
    """Return scores as rows of numbers, one table per kind; -inf for operations that an edge does not offer."""
    result = {}
    for name, kind in kinds.items():
        if name not in scores or tuple(scores[name].shape) != kind.shape:
            found = tuple(scores[name].shape) if name in scores else "missing"
            raise ValueError(f"scores of {name} must have shape {kind.shape}, but they are {found}")
        if bool(torch.isnan(scores[name]).any()):
            raise ValueError(f"scores must be numbers, but those of {name} hold NaN")
        table = scores[name].detach().double()
        if kind.choices is not None:
            table = table.masked_fill(~torch.tensor(kind.offers, device=table.device), -torch.inf)
        result[name] = table.tolist()
    return result
