"""Genotypes of papers in the DARTS space, with the auxiliary head that each release has for ImageNet."""

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from smallgroup.spaces.darts.design import NETWORKS
from smallgroup.spaces.darts.genotype import DartsGenotype
from smallgroup.spaces.darts.plain import from_plain


class Release(NamedTuple):
    """A published genotype, with the paper and the code it is from."""

    genotype: DartsGenotype
    about: str
    head: str


@cache
def releases() -> dict[str, Release]:
    """Return them by the name they have in their papers."""
    entries = json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf-8"))
    found = {}
    for name, entry in entries.items():
        about, head = entry.pop("about"), entry.pop("imagenet_head", NETWORKS["imagenet"].auxiliary)
        found[name] = Release(from_plain(entry), about, head)
    return found


def published() -> dict[str, DartsGenotype]:
    """Return the published genotypes by name, without their sources."""
    return {name: release.genotype for name, release in releases().items()}


def imagenet_head(genotype: DartsGenotype) -> str:
    """Return the auxiliary head for ImageNet of the release that a cell is from; of all others that of DARTS."""
    known = [release.head for release in releases().values() if release.genotype == genotype]
    return known[0] if known else NETWORKS["imagenet"].auxiliary
