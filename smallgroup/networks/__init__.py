"""Networks derived from a genotype, at full size: what is trained from scratch once a search is over."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.networks.auxiliary import AuxiliaryHead
    from smallgroup.networks.build import DerivedNetwork, build_network
    from smallgroup.networks.count import Operations, multiply_adds, operations, parameters
    from smallgroup.networks.darts import DartsNetwork
    from smallgroup.networks.design import (
        AUXILIARIES,
        BENCHMARK_NETWORKS,
        NETWORKS,
        NetworkDesign,
        design_of,
        image_size,
    )
    from smallgroup.networks.drop_path import Key
    from smallgroup.networks.nas_bench_201 import NasBench201Network
    from smallgroup.networks.outputs import Outputs
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "auxiliary": ["AuxiliaryHead"],
            "build": ["DerivedNetwork", "build_network"],
            "count": ["Operations", "multiply_adds", "operations", "parameters"],
            "darts": ["DartsNetwork"],
            "design": ["AUXILIARIES", "BENCHMARK_NETWORKS", "NETWORKS", "NetworkDesign", "design_of", "image_size"],
            "drop_path": ["Key"],
            "nas_bench_201": ["NasBench201Network"],
            "outputs": ["Outputs"],
        },
    )

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
