"""NAS-Bench-201 as the registry has it."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig, SpaceConfig
from smallgroup.spaces.definition import Published, SpaceDefinition
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import CellGraph, Edge
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.nas_bench_201.cell import EDGES, KIND, OPERATIONS, Cell
from smallgroup.spaces.nas_bench_201.config import NasBench201Config, NasBench201NetworkConfig
from smallgroup.spaces.nas_bench_201.design import NETWORKS, NasBench201Design
from smallgroup.spaces.reading import show

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smallgroup.spaces.nas_bench_201.network import NasBench201Network
    from smallgroup.spaces.nas_bench_201.space import NasBench201Space

PUBLISHED = {
    "BetaDARTS_201": (
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|",
        "beta-DARTS, Ye et al. 2022 (and DrNAS), NAS-Bench-201; the one cell of the accuracies that they state",
    )
}
LAST_MAP = 4
"""Pixels, at most, of the height and width that the last stage sees where the stem halves images by itself."""


class NasBench201Definition(SpaceDefinition):
    """One cell of six edges, five operations per edge; the accuracy of all 15,625 cells is known."""

    name: ClassVar[str] = "nas-bench-201"
    kinds: ClassVar[Mapping[str, Kind]] = {"cell": KIND}
    config: ClassVar[type[SpaceConfig]] = NasBench201Config
    network_config: ClassVar[type[NetworkConfig]] = NasBench201NetworkConfig
    network_design: ClassVar[type[NetworkDesign]] = NasBench201Design
    strides: ClassVar[tuple[int, ...]] = (1,)
    benched: ClassVar[tuple[Mapping[str, Any], ...]] = ({"cells_per_stage": 1}, {"cells_per_stage": 5})
    baselines: ClassVar[Mapping[str, Any]] = {
        # Two 3x3 convolutions with a skip connection around them: the residual block, as the benchmark writes it.
        "resnet": "|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|skip_connect~0|none~1|skip_connect~2|",
        "all-3x3": str(Cell(("nor_conv_3x3",) * len(EDGES))),
    }

    def space(self, config: SpaceConfig, images: ImageSpec) -> "NasBench201Space":
        """Return the space at a size, for such images."""
        from smallgroup.spaces.nas_bench_201.space import NasBench201Space  # noqa: PLC0415 -- it loads torch

        return NasBench201Space(config.channels, config.cells_per_stage, images, derivation=config.derive)

    def network(self, genotype: Cell, design: NasBench201Design) -> "NasBench201Network":
        """Return the network that is trained from a cell."""
        from smallgroup.spaces.nas_bench_201.network import NasBench201Network  # noqa: PLC0415 -- it loads torch

        return NasBench201Network(genotype, design)

    def to_plain(self, genotype: Cell) -> str:
        """Return the notation of the benchmark."""
        return str(genotype)

    def from_plain(self, data: object) -> Cell:
        """Read the notation of the benchmark."""
        if not isinstance(data, str):
            raise ValueError(f"a genotype of {self.name} must be a text, but got {show(data)}")
        return Cell.parse(data)

    def design(self, config: NetworkConfig, images: ImageSpec) -> NetworkDesign:
        """Return the network of a config, its halvings by the size of the images where they are auto."""
        halvings = _halvings(images.size, config.stages) if config.halvings == "auto" else config.halvings
        return super().design(config.model_copy(update={"halvings": halvings}), images)

    def published_design(self, dataset: str) -> NasBench201Design:
        """Return the network design that the benchmark trained."""
        return NETWORKS[dataset]

    def depth(self, *, deep: bool) -> dict[str, Any]:
        """Return the cells of each stage."""
        return {"cells_per_stage": 1 + deep}

    def reads(self, text: str) -> bool:
        """Return whether a text begins as the notation does."""
        return text.lstrip().startswith("|")

    def parse(self, text: str) -> tuple[str | None, Cell]:
        """Read the notation; a cell is called by it."""
        cell = Cell.parse(text)
        return str(cell), cell

    def published(self) -> Mapping[str, Published]:
        """Return the cells of papers, by name."""
        return {name: Published(Cell.parse(text), about) for name, (text, about) in PUBLISHED.items()}

    def graphs(self, genotype: Cell) -> dict[str, CellGraph]:
        """Return the cell; `none` is one of its operations."""
        nodes: dict[int, tuple[Edge, ...]] = {1: (), 2: (), 3: ()}
        for (node, source), operation in zip(EDGES, genotype.operations, strict=True):
            nodes[node] = (*nodes[node], Edge(operation, source))
        return {"cell": CellGraph("cell", ("input",), tuple(nodes.values()), (3,))}

    def notes(self, genotype: Cell) -> list[str]:
        """Return what the input is, and a line on each operation that is in the notation and has no effect."""
        dead = [(EDGES[edge], genotype.operations[edge]) for edge in genotype.dead]
        return [
            "0: the input. A node sums what leads to it.",
            *(f"dead: {name} from {source} to {node} cannot influence the output" for (node, source), name in dead),
        ]

    def in_a_line(self, genotype: Cell) -> str:
        """Return the cell in the notation of the benchmark."""
        return str(genotype)

    def form(self, genotype: Cell) -> Hashable:
        """Return the text that the benchmark has for cells that are one, without dead operations."""
        return genotype.pruned().form()

    def sampled(self, generator: "torch.Generator") -> Cell:
        """Draw a cell, each of the 15,625 with equal probability."""
        import torch  # noqa: PLC0415

        drawn = torch.randint(len(OPERATIONS), (len(EDGES),), generator=generator).tolist()
        return Cell(tuple(OPERATIONS[i] for i in drawn))

    def mutated(self, genotype: Cell, generator: "torch.Generator") -> Cell:
        """Draw another operation on one edge."""
        import torch  # noqa: PLC0415

        edge = int(torch.randint(len(EDGES), (), generator=generator))
        others = [operation for operation in OPERATIONS if operation != genotype.operations[edge]]
        operations = list(genotype.operations)
        operations[edge] = others[int(torch.randint(len(others), (), generator=generator))]
        return Cell(tuple(operations))

    def decisions(self) -> tuple[int, ...]:
        """Return an operation for every edge, `none` among them: all cells of the benchmark."""
        return (len(OPERATIONS),) * len(EDGES)

    def decided(self, options: Sequence[int]) -> Cell:
        """Return the cell, the only one that is decided."""
        return Cell(tuple(OPERATIONS[option] for option in options))

    def neighbors(self, genotype: Cell, scores: "Mapping[str, Tensor]") -> Iterator[Cell]:
        """Yield for every edge the cell with the next best operation there."""
        from smallgroup.spaces.choices import next_best_operation  # noqa: PLC0415 -- it loads torch

        for edge, operation in enumerate(genotype.operations):
            other = next_best_operation(scores["cell"][edge], OPERATIONS, operation)
            if other is not None:
                yield Cell((*genotype.operations[:edge], other, *genotype.operations[edge + 1 :])).pruned()

    def operation(self, name: str, channels: int, stride: int) -> "nn.Module":  # noqa: ARG002 -- all have stride 1
        """Return an operation of an edge as the supernet has it."""
        from smallgroup.spaces.layers import SEARCH  # noqa: PLC0415 -- it loads torch
        from smallgroup.spaces.nas_bench_201.operations import build  # noqa: PLC0415 -- it loads torch

        return build(name, channels, SEARCH)

    def canary(self) -> "Mapping[str, Callable[[torch.Generator], list[Tensor]]]":
        """Return the canary of the residual block between two stages."""
        from smallgroup.spaces.nas_bench_201.canary import PARTS  # noqa: PLC0415 -- it loads torch

        return PARTS


def _halvings(size: int, stages: int) -> int:
    """Return how often a stem halves an image so that the last stage sees a small enough map."""
    return min(MOST["halvings"], max(0, math.ceil(math.log2(size / LAST_MAP)) - (stages - 1)))
