"""What a space registers: everything that is particular to it, in one class."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig, SpaceConfig
from smallgroup.spaces.design import IMAGES, NetworkDesign
from smallgroup.spaces.genotype import CellGraph, Edge, Genotype
from smallgroup.spaces.kinds import Kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smallgroup.spaces.network import DerivedNetwork
    from smallgroup.spaces.space import Space


@dataclass(frozen=True)
class Published:
    """A genotype that a paper has published, and where."""

    genotype: Genotype
    about: str
    """A line on where it comes from."""


class SpaceDefinition:
    """A search space: its sizes, genotypes and networks. Subclass it, and register the subclass.

        @smallgroup.spaces.register
        class Mine(SpaceDefinition): ...

    Configs are checked with the class before torch is loaded: built-in spaces import torch inside of methods. The first
    four methods have to be written; the others have a default that suits most spaces.
    """

    name: ClassVar[str]
    """What configs, files and the command call the space."""
    kinds: ClassVar[Mapping[str, Kind]]
    """The kinds of cells, each with an architecture of its own."""
    config: ClassVar[type[SpaceConfig]] = SpaceConfig
    """The section `space` of a config: the common keys and those of this space."""
    network_config: ClassVar[type[NetworkConfig]] = NetworkConfig
    """The sections `training.network` and `playoff.network`, likewise; defaults are those of short trainings."""
    network_design: ClassVar[type[NetworkDesign]] = NetworkDesign
    """What a network is built from, and what the file of a trained model says of it."""
    auxiliaries: ClassVar[tuple[str, ...]] = ("none",)
    """The kinds of heads that help to train its networks."""
    drops_paths: ClassVar[bool] = False
    """Whether its networks can drop paths in training."""
    width_step: ClassVar[int] = 1
    """What the channels of its networks must be a multiple of."""
    strides: ClassVar[tuple[int, ...]] = ()
    """The strides that `bench ops` measures its operations with; none: it measures none of them."""
    benched: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """Sizes of its supernet that `bench step` measures where nothing else is asked for."""
    published_channels: ClassVar[int] = 36
    """The channels of the networks that papers train."""
    baselines: ClassVar[Mapping[str, Any]] = {}
    """Well-known networks by name, such as `resnet`, in the form that `from_plain` reads."""

    # What a space has to say.

    def space(self, config: SpaceConfig, images: ImageSpec) -> "Space":
        """Return the space at a size, for such images."""
        raise NotImplementedError

    def network(self, genotype: Any, design: Any) -> "DerivedNetwork":  # noqa: ANN401 -- those of this space
        """Return the derived network; called on the meta device."""
        raise NotImplementedError

    def to_plain(self, genotype: Any) -> Any:  # noqa: ANN401 -- what JSON can hold
        """Return the genotype as JSON values, for files."""
        raise NotImplementedError

    def from_plain(self, plain: object) -> Genotype:
        """Read what `to_plain` returns; the file is untrusted, and whatever is wrong with it is a ValueError."""
        raise NotImplementedError

    # Sizes.

    def design(self, config: NetworkConfig, images: ImageSpec) -> NetworkDesign:
        """Return the network of a config for such images."""
        names = {each.name for each in fields(self.network_design)} & self.network_config.model_fields.keys()
        keys = {key: value for key, value in config.model_dump().items() if key in names}
        return self.network_design(**{**keys, "images": images})

    def published_design(self, dataset: str) -> NetworkDesign:
        """Return the network that papers train for a dataset of `IMAGES`, with its auxiliary head."""
        return self.design(self.network_config(channels=self.published_channels), IMAGES[dataset])

    def published_auxiliary(self, genotype: Any, dataset: str) -> str:  # noqa: ANN401, ARG002
        """Return the auxiliary head that the release of a genotype has for a dataset."""
        return self.published_design(dataset).auxiliary

    def published_sizes(self, genotype: Any) -> Mapping[str, Any]:  # noqa: ANN401, ARG002
        """Return the network keys in which the release of a genotype differs from others of its space."""
        return {}

    def depth(self, *, deep: bool) -> dict[str, Any]:  # noqa: ARG002
        """Return the keys of `network_config` that set the depth of a network; none: the depth is fixed."""
        return {}

    # Genotypes as text.

    def reads(self, text: str) -> bool:  # noqa: ARG002
        """Return whether a text looks like a genotype in a notation of this space."""
        return False

    def parse(self, text: str) -> tuple[str | None, Genotype]:
        """Read the notation; with the name that the genotype has in the text, if any."""
        raise NotImplementedError

    def reads_plain(self, plain: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Return whether a JSON object without a schema looks like a genotype of this space."""
        return False

    def published(self) -> Mapping[str, Published]:
        """Return the genotypes of papers by the name they have there."""
        return {}

    # Drawings.

    def graphs(self, genotype: Any) -> dict[str, CellGraph]:  # noqa: ANN401
        """Return for each kind of cell what is drawn of a genotype: for a node every edge that is chosen."""
        return {kind: _graph(self.kinds[kind], table) for kind, table in self.at_any_size().chosen(genotype).items()}

    def drawn(self, genotype: Any) -> list[str] | None:  # noqa: ANN401, ARG002
        """Return lines of text in place of the usual drawing of cells; None: cells are drawn with a lane per node."""
        return None

    def notes(self, genotype: Any) -> list[str]:  # noqa: ANN401
        """Return the lines below a drawing as text."""
        first = next(iter(self.graphs(genotype).values()))
        inputs = ", ".join(f"{number}: {name}" for number, name in enumerate(first.inputs))
        return [f"{inputs}. A node sums what leads to it."]

    def in_a_line(self, genotype: Any) -> str:  # noqa: ANN401
        """Return the cells in one line: node by node, each operation with its source."""
        return "; ".join(f"{kind} {_nodes_in_a_line(graph)}" for kind, graph in self.graphs(genotype).items())

    # Genotypes beside another.

    def form(self, genotype: Any) -> Hashable:  # noqa: ANN401
        """Return a value that is equal for genotypes that are the same function."""
        form: Hashable = genotype
        return form

    def random(self, generator: "torch.Generator") -> Genotype:
        """Draw a genotype without dead parts, as a search could derive it."""
        from smallgroup.spaces.choices import from_random_scores  # noqa: PLC0415 -- it loads torch

        return from_random_scores(self.at_any_size(), generator)

    def sampled(self, generator: "torch.Generator") -> Genotype:
        """Draw one of all genotypes, for random search."""
        return self.random(generator)

    def mutated(self, genotype: Any, generator: "torch.Generator") -> Genotype:  # noqa: ANN401
        """Draw another operation on one edge, for evolution."""
        from smallgroup.spaces.choices import with_other_operation  # noqa: PLC0415 -- it loads torch

        return with_other_operation(self.at_any_size(), genotype, generator)

    def decisions(self) -> tuple[int, ...]:
        """Return the number of options of each decision that makes a genotype, for baselines that look genotypes up.

        By default there is one for every edge, between its operations but `none`.
        """
        from smallgroup.spaces.choices import options_by_edge  # noqa: PLC0415 -- it loads torch

        return tuple(len(options) for _, _, options in options_by_edge(self.kinds))

    def decided(self, options: Sequence[int]) -> Genotype:
        """Return the genotype that one option per decision makes."""
        from smallgroup.spaces.choices import from_options  # noqa: PLC0415 -- it loads torch

        return from_options(self.at_any_size(), options)

    def neighbors(self, genotype: Any, scores: "Mapping[str, Tensor]") -> Iterator[Genotype]:  # noqa: ANN401
        """Return for every edge the genotype with the next best operation there."""
        from smallgroup.spaces.choices import with_next_best  # noqa: PLC0415 -- it loads torch

        return with_next_best(self.at_any_size(), genotype, scores)

    # Its operations and the machine.

    def operation(self, name: str, channels: int, stride: int) -> "nn.Module":
        """Return an operation of an edge as the supernet has it; only for spaces with `strides`."""
        raise NotImplementedError

    def canary(self) -> "Mapping[str, Callable[[torch.Generator], list[Tensor]]]":
        """Return by name computations of this space alone: their bits show whether libraries round as before."""
        return {}

    def at_any_size(self) -> "Space":
        """Return the space at some size, for what does not depend on it: derivation, and what a genotype chose."""
        return self.space(self.config(name=self.name, channels=self.width_step), ImageSpec())


def _graph(kind: Kind, table: "Tensor") -> CellGraph:
    """Return the chosen edges of a cell; sources without incoming edges are inputs, the last node is the output."""
    nodes = sorted({node for _, node in kind.edges})
    inputs = sorted({source for source, _ in kind.edges} - set(nodes))
    into: dict[int, list[Edge]] = {node: [] for node in nodes}
    for (source, node), row in zip(kind.edges, table.tolist(), strict=True):
        into[node] += [Edge(name, source) for name, chosen in zip(kind.operations, row, strict=True) if chosen]
    names = ("input",) if len(inputs) == 1 else tuple(f"input {number}" for number in inputs)
    return CellGraph(kind.title, names, tuple(map(tuple, into.values())), (nodes[-1],))


def _nodes_in_a_line(graph: CellGraph) -> str:
    return " | ".join(" ".join(f"{edge.operation}({edge.source})" for edge in edges) for edges in graph.nodes)
