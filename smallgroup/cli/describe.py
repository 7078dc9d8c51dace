"""`smallgroup describe`.

For every genotype, as JSON: `parameters` and `multiply_adds` of the network after training, as papers state them, and
what else papers count:

- `parameters_with_auxiliary`: with the head that helps to train. On ImageNet that of DARTS, PC-DARTS and the paper,
  which has one batch norm.
- `parameters_with_two_norms`: with the head that has two, as always on CIFAR, and on ImageNet in P-DARTS and DARTS-.
- `multiply_adds_with_elementwise`: 2 more for each number of a batch norm, 1 for each of a ReLU.

The networks of NAS-Bench-201 have no such head: both counts with one are null.
"""

from dataclasses import replace
from typing import Any

import torch
import typer

from smallgroup.cli.output import print_columns, print_json
from smallgroup.networks import build_network, design_of, operations, parameters
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import AnyGenotype, resolve, space_of, to_plain


def run(texts: list[str], network: str, *, as_json: bool) -> None:
    """Everything is read before anything is printed: a typo in the last one is not found after a page of output."""
    genotypes = [resolve(text) for text in texts]
    descriptions = [describe(name, genotype, network) for name, genotype in genotypes]
    if as_json:
        print_json(descriptions)
        return
    for index, ((name, genotype), description) in enumerate(zip(genotypes, descriptions, strict=True)):
        typer.echo("\n" * (index > 0) + name)
        size = design_of(genotype, network).image_size
        print_columns(
            [
                ("space", description["space"]),
                ("network", f"{network}, images of {size}x{size}"),
                ("parameters", f"{description['parameters']:,}"),
                *_with_heads(description),
                ("multiply-adds", f"{description['multiply_adds']:,}"),
                ("", f"{description['multiply_adds_with_elementwise']:,} with batch norms and ReLUs"),
            ]
        )
        typer.echo("\n" + draw(genotype))


def describe(name: str, genotype: AnyGenotype, network: str) -> dict[str, Any]:
    """What `--json` prints about one genotype."""
    design = design_of(genotype, network, auxiliary=True)
    with torch.device("meta"):
        module = build_network(genotype, design)
        has_head = design.auxiliary != "none"
        two_norms = build_network(genotype, replace(design, auxiliary="two-norms")) if has_head else None
    counted = operations(module, design.image_size)
    return {
        "name": name,
        "space": space_of(genotype),
        "network": network,
        "parameters": parameters(module),
        "parameters_with_auxiliary": parameters(module, auxiliary=True) if has_head else None,
        "parameters_with_two_norms": None if two_norms is None else parameters(two_norms, auxiliary=True),
        "multiply_adds": counted.multiply_adds,
        "multiply_adds_with_elementwise": counted.with_elementwise,
        "genotype": to_plain(genotype),
    }


def _with_heads(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Nothing where there is no head, and one line where papers agree on it."""
    one, two = description["parameters_with_auxiliary"], description["parameters_with_two_norms"]
    lines = [] if one is None else [("", f"{one:,} with auxiliary head")]
    return lines if one == two else [*lines, ("", f"{two:,} with auxiliary head of two batch norms")]
