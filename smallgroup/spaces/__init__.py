"""What may be chosen: operations, cells, supernets, genotypes and the networks around them; one folder per space."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.spaces.config import NetworkConfig, SpaceConfig
    from smallgroup.spaces.definition import SpaceDefinition
    from smallgroup.spaces.design import NetworkDesign
    from smallgroup.spaces.drawing import draw
    from smallgroup.spaces.edges import MixedNodes
    from smallgroup.spaces.genotype import Genotype
    from smallgroup.spaces.ground_truth import GroundTruth, Standing
    from smallgroup.spaces.kinds import Kind, Rule
    from smallgroup.spaces.layers import FULL, SEARCH, Style, Zero, relu_conv_norm
    from smallgroup.spaces.network import DerivedNetwork
    from smallgroup.spaces.networks import build_network
    from smallgroup.spaces.space import Space, checked_scores
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "config": ["NetworkConfig", "SpaceConfig"],
            "definition": ["SpaceDefinition"],
            "design": ["NetworkDesign"],
            "drawing": ["draw"],
            "edges": ["MixedNodes"],
            "genotype": ["Genotype"],
            "ground_truth": ["GroundTruth", "Standing"],
            "kinds": ["Kind", "Rule"],
            "layers": ["FULL", "SEARCH", "Style", "Zero", "relu_conv_norm"],
            "network": ["DerivedNetwork"],
            "networks": ["build_network"],
            "space": ["Space", "checked_scores"],
        },
    )


def _of_folders(what: str) -> dict[str, str]:
    """Return what the folders here say that they have, by name: `SPACES` and `GROUND_TRUTHS` of each."""
    folders = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__) if each.ispkg]
    return dict(sorted((name, place) for folder in folders for name, place in vars(folder).get(what, {}).items()))


SPACES: "Registry[SpaceDefinition]" = Registry(
    "space",
    "smallgroup.spaces",
    "smallgroup.spaces.definition:SpaceDefinition",
    _of_folders("SPACES"),
)
"""Spaces by name: the built-in ones, those of installed packages, and those of plugins."""
register = SPACES.register
"""The decorator that registers a space of your own under its `name`."""

GROUND_TRUTHS: "Registry[GroundTruth]" = Registry(
    "ground truth",
    "smallgroup.ground_truths",
    "smallgroup.spaces.ground_truth:GroundTruth",
    _of_folders("GROUND_TRUTHS"),
)
"""Tables and surrogates of how good the cells of a space are, by name."""
register_ground_truth = GROUND_TRUTHS.register
"""The decorator that registers a ground truth of your own under its `name`."""


def definition_of(name: str) -> "SpaceDefinition":
    """Return the definition of a space by its name; refuse unknown names."""
    SPACES.check_name(name)
    return SPACES[name]()


def definitions() -> "list[SpaceDefinition]":
    """Return the definitions of all spaces, without those of installed packages that cannot be imported."""
    return [definition() for _, definition in SPACES.usable()]


__all__ = [
    "FULL",
    "GROUND_TRUTHS",
    "SEARCH",
    "SPACES",
    "DerivedNetwork",
    "Genotype",
    "GroundTruth",
    "ImageSpec",
    "Kind",
    "MixedNodes",
    "NetworkConfig",
    "NetworkDesign",
    "Rule",
    "Space",
    "SpaceConfig",
    "SpaceDefinition",
    "Standing",
    "Style",
    "Zero",
    "build_network",
    "checked_scores",
    "definition_of",
    "definitions",
    "draw",
    "register",
    "register_ground_truth",
    "relu_conv_norm",
]
