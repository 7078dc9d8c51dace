"""What may be chosen: operations, cells, supernets, genotypes and the networks around them; one folder per space."""

from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.spaces.config import NetworkConfig, SpaceConfig
    from smallgroup.spaces.darts import DartsSpace
    from smallgroup.spaces.definition import SpaceDefinition
    from smallgroup.spaces.design import NetworkDesign
    from smallgroup.spaces.edges import MixedNodes
    from smallgroup.spaces.genotype import Genotype
    from smallgroup.spaces.ground_truth import GroundTruth, Standing
    from smallgroup.spaces.kinds import Kind, Rule
    from smallgroup.spaces.nas_bench_201 import NasBench201Space
    from smallgroup.spaces.network import DerivedNetwork
    from smallgroup.spaces.space import Space, checked_scores
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "config": ["NetworkConfig", "SpaceConfig"],
            "darts": ["DartsSpace"],
            "definition": ["SpaceDefinition"],
            "design": ["NetworkDesign"],
            "edges": ["MixedNodes"],
            "genotype": ["Genotype"],
            "ground_truth": ["GroundTruth", "Standing"],
            "kinds": ["Kind", "Rule"],
            "nas_bench_201": ["NasBench201Space"],
            "network": ["DerivedNetwork"],
            "space": ["Space", "checked_scores"],
        },
    )

SPACES: "Registry[SpaceDefinition]" = Registry(
    "space",
    "smallgroup.spaces",
    "smallgroup.spaces.definition:SpaceDefinition",
    {
        "darts": "smallgroup.spaces.darts.definition:DartsDefinition",
        "nas-bench-201": "smallgroup.spaces.nas_bench_201.definition:NasBench201Definition",
        "proxyless": "smallgroup.spaces.proxyless.definition:ProxylessDefinition",
        **{f"robust-s{n}": f"smallgroup.spaces.robust.definition:RobustS{n}" for n in (1, 2, 3, 4)},
    },
)
"""Spaces by name: the built-in ones, those of installed packages, and those of plugins."""
MAIN_SPACES = ("darts", "nas-bench-201")
"""The spaces that contracts of methods and measurements of operations go through; the others are parts of the first, or
made for one method."""
register = SPACES.register
"""The decorator that registers a space of your own under its `name`."""

GROUND_TRUTHS: "Registry[GroundTruth]" = Registry(
    "ground truth",
    "smallgroup.ground_truths",
    "smallgroup.spaces.ground_truth:GroundTruth",
    {
        "nas-bench-201": "smallgroup.spaces.nas_bench_201.truth:Truth",
        "nas-bench-301": "smallgroup.spaces.darts.truth:Surrogate",
    },
)
"""Tables and surrogates of how good the cells of a space are, by name."""
register_ground_truth = GROUND_TRUTHS.register
"""The decorator that registers a ground truth of your own under its `name`."""


def definition_of(name: str) -> "SpaceDefinition":
    """Return the definition of the space of that name; one sentence if there is none."""
    SPACES.check_name(name)
    return SPACES[name]()


def definitions() -> "list[SpaceDefinition]":
    """Return the definitions of all spaces, without those of installed packages that cannot be imported."""
    return [definition() for _, definition in SPACES.usable()]


__all__ = [
    "GROUND_TRUTHS",
    "SPACES",
    "DartsSpace",
    "DerivedNetwork",
    "Genotype",
    "GroundTruth",
    "ImageSpec",
    "Kind",
    "MixedNodes",
    "NasBench201Space",
    "NetworkConfig",
    "NetworkDesign",
    "Rule",
    "Space",
    "SpaceConfig",
    "SpaceDefinition",
    "Standing",
    "checked_scores",
    "definition_of",
    "definitions",
    "register",
    "register_ground_truth",
]
