"""The chain space as the registry has it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig, SpaceConfig
from smallgroup.spaces.definition import Published, SpaceDefinition
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.proxyless.config import ProxylessConfig, ProxylessNetworkConfig
from smallgroup.spaces.proxyless.design import ProxylessDesign
from smallgroup.spaces.proxyless.genotype import Chain, looks_like_a_chain
from smallgroup.spaces.proxyless.names import FIRST, KIND, LAYERS, NONE, SEARCHED, form_for, layers
from smallgroup.spaces.proxyless.published import releases
from smallgroup.spaces.reading import show

if TYPE_CHECKING:
    import torch

    from smallgroup.spaces.proxyless.network import ProxylessNetwork
    from smallgroup.spaces.proxyless.space import ProxylessSpace


class ProxylessDefinition(SpaceDefinition):
    """A chain of 21 inverted residual blocks; kernel and expansion of each are chosen, and whether it is there."""

    name: ClassVar[str] = "proxyless"
    kinds: ClassVar[Mapping[str, Kind]] = {"chain": KIND}
    config: ClassVar[type[SpaceConfig]] = ProxylessConfig
    network_config: ClassVar[type[NetworkConfig]] = ProxylessNetworkConfig
    network_design: ClassVar[type[NetworkDesign]] = ProxylessDesign
    width_step: ClassVar[int] = 2
    published_channels: ClassVar[int] = 16

    def space(self, config: SpaceConfig, images: ImageSpec) -> "ProxylessSpace":
        """Return the space at a size, for such images."""
        from smallgroup.spaces.proxyless.space import ProxylessSpace  # noqa: PLC0415 -- it loads torch

        form = form_for(images.size) if config.form == "auto" else config.form
        return ProxylessSpace(config.channels, form, images)

    def network(self, genotype: Chain, design: ProxylessDesign) -> "ProxylessNetwork":
        """Return the network that is trained from a genotype."""
        from smallgroup.spaces.proxyless.network import ProxylessNetwork  # noqa: PLC0415 -- it loads torch

        return ProxylessNetwork(genotype, design)

    def to_plain(self, genotype: Chain) -> list[str]:
        """Return the names of the layers."""
        return list(genotype.operations)

    def from_plain(self, plain: object) -> Chain:
        """Read the names of the layers."""
        if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
            raise ValueError(f"a genotype of {self.name} must be a list of names, but got {show(plain)}")
        return Chain(tuple(plain))

    def reads(self, text: str) -> bool:
        """Return whether a text begins with the name of a block."""
        return looks_like_a_chain(text)

    def parse(self, text: str) -> tuple[str | None, Chain]:
        """Read names with commas between them."""
        return None, Chain.parse(text)

    def published(self) -> Mapping[str, Published]:
        """Return the chains of the release."""
        return {name: Published(release.genotype, release.about) for name, release in releases().items()}

    def published_sizes(self, genotype: Chain) -> Mapping[str, Any]:
        """Return the channels of the release's network around a chain."""
        return next((release.sizes for release in releases().values() if release.genotype == genotype), {})

    def drawn(self, genotype: Chain) -> list[str]:
        """Return a line for each layer: what it does, from how many channels to how many in the paper's network."""
        lines, sizes = [self.kinds["chain"].title, ""], self.published_sizes(genotype)
        table = layers(sizes.get("channels", FIRST), "imagenet", sizes.get("widths", SEARCHED))
        for number, (name, size) in enumerate(zip(genotype.operations, table, strict=True), 1):
            does = "left out" if name == NONE else f"{size.inputs} to {size.outputs} channels"
            lines.append(f"{number:>4}  {name:<12} {does}{', half the size' if size.stride == 2 else ''}")
        return lines

    def notes(self, genotype: Chain) -> list[str]:
        """Return what the sizes are for."""
        return [
            f"{genotype.skips} blocks are left out. Channels and halvings are those of the paper;",
            "a network has as many as its `channels` say, and halves small images less often.",
        ]

    def in_a_line(self, genotype: Chain) -> str:
        """Return the names stage by stage."""
        return " | ".join(" ".join(stage) for stage in genotype.stages)

    def decisions(self) -> tuple[int, ...]:
        """Return what every layer offers, `none` among it."""
        return tuple(len(KIND.offered(layer)) for layer in range(LAYERS))

    def decided(self, options: Sequence[int]) -> Chain:
        """Return the chain of blocks, the only part that is decided."""
        return Chain(tuple(KIND.offered(layer)[option] for layer, option in enumerate(options)))

    def mutated(self, genotype: Chain, generator: "torch.Generator") -> Chain:
        """Draw another operation for a layer; `none` is one, where the layer may be left out."""
        import torch  # noqa: PLC0415 -- a config is checked without it

        layer = int(torch.randint(len(genotype.operations), (), generator=generator))
        others = [name for name in KIND.offered(layer) if name != genotype.operations[layer]]
        other = others[int(torch.randint(len(others), (), generator=generator))]
        return Chain((*genotype.operations[:layer], other, *genotype.operations[layer + 1 :]))
