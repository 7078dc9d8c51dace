"""The DARTS space as the registry has it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig, SpaceConfig
from smallgroup.spaces.darts import decisions, notation, plain
from smallgroup.spaces.darts.config import DartsConfig, DartsNetworkConfig
from smallgroup.spaces.darts.design import NETWORKS, DartsDesign, stem_for
from smallgroup.spaces.darts.genotype import CellGenotype, DartsGenotype
from smallgroup.spaces.darts.names import AUXILIARIES, INPUTS, KINDS
from smallgroup.spaces.darts.published import imagenet_head, releases
from smallgroup.spaces.definition import Published, SpaceDefinition
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import CellGraph, Edge
from smallgroup.spaces.kinds import Kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smallgroup.spaces.darts.network import DartsNetwork
    from smallgroup.spaces.darts.space import DartsSpace


class DartsDefinition(SpaceDefinition):
    """A normal and a reduction cell of 14 edges, eight operations per edge."""

    name: ClassVar[str] = "darts"
    kinds: ClassVar[Mapping[str, Kind]] = KINDS
    genotype: ClassVar[type[DartsGenotype]] = DartsGenotype
    """What a search derives; a part of the space has genotypes of its own."""
    config: ClassVar[type[SpaceConfig]] = DartsConfig
    network_config: ClassVar[type[NetworkConfig]] = DartsNetworkConfig
    network_design: ClassVar[type[NetworkDesign]] = DartsDesign
    auxiliaries: ClassVar[tuple[str, ...]] = AUXILIARIES
    drops_paths: ClassVar[bool] = True
    width_step: ClassVar[int] = 2  # skip connections that halve the size need even channels
    strides: ClassVar[tuple[int, ...]] = (1, 2)

    def space(self, config: SpaceConfig, images: ImageSpec) -> "DartsSpace":
        """Return the space at a size, for such images."""
        from smallgroup.spaces.darts.space import DartsSpace  # noqa: PLC0415 -- it loads torch

        stem = stem_for(images.size) if config.stem == "auto" else config.stem
        return DartsSpace(channels=config.channels, cells=config.cells, stem=stem, images=images)

    def network(self, genotype: DartsGenotype, design: DartsDesign) -> "DartsNetwork":
        """Return the network that is trained from a genotype."""
        from smallgroup.spaces.darts.network import DartsNetwork  # noqa: PLC0415 -- it loads torch

        return DartsNetwork(genotype, design)

    def to_plain(self, genotype: DartsGenotype) -> dict[str, Any]:
        """Return two cells of nodes and edges."""
        return plain.to_plain(genotype)

    def from_plain(self, data: object) -> DartsGenotype:
        """Read the form of `to_plain`, or the flat one of papers."""
        return plain.from_plain(data)

    def published_design(self, dataset: str) -> DartsDesign:
        """Return the network that the papers train."""
        return NETWORKS[dataset]

    def published_auxiliary(self, genotype: DartsGenotype, dataset: str) -> str:
        """Return, for ImageNet, the head of the release that a cell is from; of all others that of DARTS."""
        return imagenet_head(genotype) if dataset == "imagenet" else NETWORKS[dataset].auxiliary

    def depth(self, *, deep: bool) -> dict[str, Any]:
        """Return the cells of a network."""
        # 5 cells are the fewest with both kinds of cells and a normal one at each resolution.
        return {"cells": 8 if deep else 5}

    def reads(self, text: str) -> bool:
        """Return whether a text has brackets like `Genotype(...)`."""
        return "(" in text and text.lstrip()[:1] not in ("{", "[", "|")

    def parse(self, text: str) -> tuple[str | None, DartsGenotype]:
        """Read the notation of the papers."""
        return notation.parse_named(text)

    def reads_plain(self, data: Mapping[str, object]) -> bool:
        """Return whether an object has a normal cell."""
        return "normal" in data

    def published(self) -> Mapping[str, Published]:
        """Return the genotypes that papers have published, by name."""
        return {name: Published(release.genotype, release.about) for name, release in releases().items()}

    def graphs(self, genotype: DartsGenotype) -> dict[str, CellGraph]:
        """Return the normal and the reduction cell."""
        cells, inputs = {"normal": genotype.normal, "reduce": genotype.reduce}, ("cell before last", "last cell")
        kinds = self.kinds
        return {kind: CellGraph(kinds[kind].title, inputs, cell.nodes, cell.concat) for kind, cell in cells.items()}

    def notes(self, genotype: DartsGenotype) -> list[str]:  # noqa: ARG002
        """Return a line on what the two inputs of a cell are."""
        return ["0: the cell before the last, 1: the last one. A node sums what leads to it."]

    def decisions(self) -> tuple[int, ...]:
        """Return the options of every decision: two sources for every node, and an operation for each."""
        return decisions.sizes(self.kinds)

    def decided(self, options: Sequence[int]) -> DartsGenotype:
        """Return the two cells, normal and reduction."""
        return decisions.decided(self.kinds, options, self.genotype)

    def mutated(self, genotype: DartsGenotype, generator: "torch.Generator") -> DartsGenotype:
        """Draw another option of one decision: other sources of a node, or another operation."""
        import torch  # noqa: PLC0415 -- a config is checked without it

        options = decisions.options_of(self.kinds, genotype)
        if options is None:  # a cell that a threshold made, say: its edges stay
            changed: DartsGenotype = super().mutated(genotype, generator)  # type: ignore[assignment]
            return changed
        sizes = self.decisions()
        open_to = [place for place, size in enumerate(sizes) if size > 1]
        place = open_to[int(torch.randint(len(open_to), (), generator=generator))]
        others = [option for option in range(sizes[place]) if option != options[place]]
        other = others[int(torch.randint(len(others), (), generator=generator))]
        return self.decided((*options[:place], other, *options[place + 1 :]))

    def neighbors(self, genotype: DartsGenotype, scores: "Mapping[str, Tensor]") -> Iterator[DartsGenotype]:
        """Yield for every edge of both cells the genotype with the next best operation there."""
        normal, reduce = (self.kinds[kind] for kind in ("normal", "reduce"))
        yield from (replace(genotype, normal=cell) for cell in _neighbors(normal, genotype.normal, scores["normal"]))
        yield from (replace(genotype, reduce=cell) for cell in _neighbors(reduce, genotype.reduce, scores["reduce"]))

    def operation(self, name: str, channels: int, stride: int) -> "nn.Module":
        """Return an operation of an edge as the supernet has it."""
        from smallgroup.spaces.darts.operations import build  # noqa: PLC0415 -- it loads torch
        from smallgroup.spaces.layers import SEARCH  # noqa: PLC0415 -- it loads torch

        return build(name, channels, stride, SEARCH)

    def canary(self) -> "Mapping[str, Callable[[torch.Generator], list[Tensor]]]":
        """Return canaries of the stem, separable and dilated convolutions, pooling, and mixed operations."""
        from smallgroup.spaces.darts.canary import PARTS  # noqa: PLC0415 -- it loads torch

        return PARTS


def _neighbors(kind: Kind, cell: CellGenotype, table: "Tensor") -> Iterator[CellGenotype]:
    from smallgroup.spaces.choices import next_best_operation  # noqa: PLC0415 -- it loads torch

    for node, edges in enumerate(cell.nodes):
        for place, edge in enumerate(edges):
            number = kind.edges.index((edge.source, node + INPUTS))
            other = next_best_operation(table[number], kind.operations, edge.operation, kind.offers[number])
            if other is not None:
                changed = (*edges[:place], Edge(other, edge.source), *edges[place + 1 :])
                yield replace(cell, nodes=(*cell.nodes[:node], changed, *cell.nodes[node + 1 :]))
