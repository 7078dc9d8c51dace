"""A network from a genotype: in the size of the papers, or in any other."""

import torch

from smallgroup.networks.auxiliary import check_map
from smallgroup.networks.count import parameters
from smallgroup.networks.darts import DartsNetwork
from smallgroup.networks.design import NetworkDesign, design_of
from smallgroup.networks.nas_bench_201 import NasBench201Network
from smallgroup.runtime import stream
from smallgroup.runtime.bounds import check_parameters
from smallgroup.spaces.darts.genotype import Genotype
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.weights import initialise

DerivedNetwork = DartsNetwork | NasBench201Network


def build_network(
    genotype: Genotype | Cell,
    network: str | NetworkDesign = "cifar10",
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> DerivedNetwork:
    """The network of a design; a dataset's name stands for that of the papers, without auxiliary head.

    The initial weights are drawn from the generator, or from one that is always the same: the global ones are left
    alone. On the meta device, also as torch's default one, there are no weights to draw.
    """
    design = design_of(genotype, network) if isinstance(network, str) else network
    where = torch.get_default_device() if device is None else torch.device(device)
    with torch.device("meta"):
        module = _benchmark(genotype, design) if isinstance(genotype, Cell) else _darts(genotype, design)
    check_parameters(parameters(module, auxiliary=True))
    if where.type == "meta":
        return module
    with torch.device("cpu"):  # where weights are drawn, whatever the default device is
        initialise(module, generator or stream("network", "weights"), where)
    return module


def _darts(genotype: Genotype, design: NetworkDesign) -> DartsNetwork:
    if design.auxiliary != "none":
        check_map(design.smallest_map, design.smallest_map)
    return DartsNetwork(
        genotype,
        channels=design.channels,
        cells=design.cells,
        classes=design.classes,
        stem=design.stem_kind,
        image_channels=design.image_channels,
        auxiliary=design.auxiliary,
        drop_path=design.drop_path,
    )


def _benchmark(cell: Cell, design: NetworkDesign) -> NasBench201Network:
    if design.auxiliary != "none":
        raise ValueError(f"auxiliary must be none around a cell of NAS-Bench-201, but got {design.auxiliary}")
    network = NasBench201Network(
        cell,
        channels=design.channels,
        cells_per_stage=design.cells_per_stage,
        classes=design.classes,
        image_channels=design.image_channels,
        halvings=design.halvings,
        reduction=design.reduction,
        stages=design.stages,
        pooling=design.pooling,
    )
    network.drop_path = design.drop_path  # refused there, if there is any
    return network
