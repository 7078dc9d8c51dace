"""Networks derived from a genotype, at full size: what is trained from scratch once a search is over."""

from smallgroup.networks.build import NETWORKS, build_network, image_size
from smallgroup.networks.count import multiply_adds, parameters
from smallgroup.networks.darts import DartsNetwork
from smallgroup.networks.nas_bench_201 import NasBench201Network

__all__ = [
    "NETWORKS",
    "DartsNetwork",
    "NasBench201Network",
    "build_network",
    "image_size",
    "multiply_adds",
    "parameters",
]
