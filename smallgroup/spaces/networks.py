"""A network from a genotype: in the size of the papers, or in any other."""

from dataclasses import replace

import torch

from smallgroup.runtime import stream
from smallgroup.runtime.bounds import check_parameters
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces import definition_of
from smallgroup.spaces.count import parameters
from smallgroup.spaces.design import IMAGES, NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.weights import initialize


def build_network(
    genotype: Genotype,
    network: str | NetworkDesign = "cifar10",
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> DerivedNetwork:
    """Build the network of a design; a dataset's name gives that of the papers, without auxiliary head.

    The initial weights are drawn from the generator, or from one that is always the same: the global ones are left
    alone. On the meta device, also as torch's default one, there are no weights to draw.
    """
    definition = definition_of(genotype.space)
    design = design_of(genotype, network) if isinstance(network, str) else network
    if not isinstance(design, definition.network_design):
        expected, found = definition.network_design.__name__, type(design).__name__
        raise TypeError(f"the network of a genotype of {genotype.space} needs a {expected}, but got a {found}")
    if design.auxiliary not in definition.auxiliaries:
        known = " or ".join(definition.auxiliaries)
        raise ValueError(f"auxiliary must be {known} in networks of {genotype.space}, but got {design.auxiliary}")
    if design.drop_path and not definition.drops_paths:
        raise ValueError(f"drop_path must be 0 in networks of {genotype.space}, but got drop_path={design.drop_path}")
    where = torch.get_default_device() if device is None else torch.device(device)
    with torch.device("meta"):
        module = definition.network(genotype, design)
    check_parameters(parameters(module, auxiliary=True))
    if where.type == "meta":
        return module
    with torch.device("cpu"):  # where weights are drawn, whatever the default device is
        initialize(module, generator or stream("network", "weights"), where)
    return module


def design_of(genotype: Genotype, network: str = "cifar10", *, auxiliary: bool = False) -> NetworkDesign:
    """Return the network of the papers for a dataset; with its auxiliary head, if it has one and it is asked for."""
    check_choice("network", network, tuple(IMAGES))
    definition = definition_of(genotype.space)
    design = replace(definition.published_design(network), **definition.published_sizes(genotype))
    return design if auxiliary else replace(design, auxiliary="none")


def image_size(genotype: Genotype, network: str = "cifar10") -> int:
    """Return height and width of the images that network is made for."""
    return design_of(genotype, network).images.size
