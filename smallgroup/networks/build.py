"""The network of the papers for a genotype and a dataset."""

from dataclasses import dataclass

from torch import nn

from smallgroup.networks.darts import DartsNetwork
from smallgroup.networks.nas_bench_201 import NasBench201Network
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.darts.genotype import Genotype
from smallgroup.spaces.nas_bench_201.cell import Cell


@dataclass(frozen=True)
class NetworkSize:
    """What a dataset asks of a network. NAS-Bench-201 has its own ImageNet: 120 classes, images of 16x16."""

    classes: int
    image: int
    channels: int
    cells: int
    stem: str
    benchmark_classes: int
    benchmark_image: int


NETWORKS = {
    "cifar10": NetworkSize(10, 32, 36, 20, "cifar", 10, 32),
    "cifar100": NetworkSize(100, 32, 36, 20, "cifar", 100, 32),
    "imagenet": NetworkSize(1000, 224, 48, 14, "imagenet", 120, 16),
}


def build_network(genotype: Genotype | Cell, network: str = "cifar10") -> nn.Module:
    """The network in the size the papers train it in; its classes themselves take any other size."""
    size = _size(network)
    if isinstance(genotype, Cell):
        return NasBench201Network(genotype, classes=size.benchmark_classes)
    return DartsNetwork(genotype, channels=size.channels, cells=size.cells, classes=size.classes, stem=size.stem)


def image_size(genotype: Genotype | Cell, network: str = "cifar10") -> int:
    """Height and width of the images that network is made for."""
    size = _size(network)
    return size.benchmark_image if isinstance(genotype, Cell) else size.image


def _size(network: str) -> NetworkSize:
    check_choice("network", network, tuple(NETWORKS))
    return NETWORKS[network]
