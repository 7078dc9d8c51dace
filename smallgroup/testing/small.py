"""Registered spaces and their networks at a tiny size."""

from dataclasses import replace

from torch import nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import Genotype, Space, definition_of
from smallgroup.spaces.networks import build_network

IMAGES = ImageSpec(classes=4, channels=3, size=8)


def small_space(name: str) -> Space:
    """Return the space with two channels, and otherwise as small as possible."""
    definition = definition_of(name)
    return definition.space(definition.config(name=name, channels=2), IMAGES)


def small_network(genotype: Genotype) -> nn.Module:
    """Build the derived network with two channels, as deep as the smallest search, on the meta device."""
    definition = definition_of(genotype.space)
    searched = definition.config(name=genotype.space, channels=2).model_dump(exclude={"name"})
    known = definition.network_config.model_fields
    config = definition.network_config(**{key: value for key, value in searched.items() if key in known})
    return build_network(genotype, replace(definition.design(config, IMAGES), auxiliary="none"), device="meta")
