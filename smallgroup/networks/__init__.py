"""Networks derived from a genotype, at full size: what is trained from scratch once a search is over."""

from smallgroup.networks.auxiliary import AUXILIARIES, AuxiliaryHead
from smallgroup.networks.build import BENCHMARK_NETWORKS, NETWORKS, DerivedNetwork, build_network, design_of, image_size
from smallgroup.networks.count import Operations, multiply_adds, operations, parameters
from smallgroup.networks.darts import DartsNetwork
from smallgroup.networks.design import NetworkDesign
from smallgroup.networks.drop_path import Key
from smallgroup.networks.nas_bench_201 import NasBench201Network
from smallgroup.networks.outputs import Outputs

__all__ = [
    "AUXILIARIES",
    "BENCHMARK_NETWORKS",
    "NETWORKS",
    "AuxiliaryHead",
    "DartsNetwork",
    "DerivedNetwork",
    "Key",
    "NasBench201Network",
    "NetworkDesign",
    "Operations",
    "Outputs",
    "build_network",
    "design_of",
    "image_size",
    "multiply_adds",
    "operations",
    "parameters",
]
