"""`smallgroup describe`.

For every genotype, as JSON: `parameters` and `multiply_adds` of the network after training, as papers state them, and
what else papers count:

- `parameters_with_auxiliary`: with the head that helps to train, which `auxiliary` names. It has two batch norms on
  CIFAR; on ImageNet two in the releases of P-DARTS and DARTS-, and one in the others.
- `multiply_adds_with_elementwise`: 2 more for each number of a batch norm, 1 for each of a ReLU.

The networks of NAS-Bench-201 have no such head: the count with one is null.
"""

from dataclasses import replace
from typing import Any

import torch
import typer

from smallgroup.cli.output import print_columns, print_json
from smallgroup.networks import build_network, design_of, operations, parameters
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import AnyGenotype, imagenet_head, resolve, space_of, to_plain

HEADS = ("auto", "one-norm", "two-norms")


def run(texts: list[str], network: str, auxiliary: str, *, as_json: bool) -> None:
    """Everything is read before anything is printed: a typo in the last one is not found after a page of output."""
    check_choice("auxiliary", auxiliary, HEADS)
    genotypes = [resolve(text) for text in texts]
    descriptions = [describe(name, genotype, network, auxiliary) for name, genotype in genotypes]
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
                *_with_head(description),
                ("multiply-adds", f"{description['multiply_adds']:,}"),
                ("", f"{description['multiply_adds_with_elementwise']:,} with batch norms and ReLUs"),
            ]
        )
        typer.echo("\n" + draw(genotype))


def describe(name: str, genotype: AnyGenotype, network: str, auxiliary: str = "auto") -> dict[str, Any]:
    """What `--json` prints about one genotype."""
    design = design_of(genotype, network, auxiliary=True)
    has_head = design.auxiliary != "none"
    if has_head and (auxiliary != "auto" or network == "imagenet"):
        head: Any = imagenet_head(genotype) if auxiliary == "auto" else auxiliary
        design = replace(design, auxiliary=head)
    with torch.device("meta"):
        module = build_network(genotype, design)
    counted = operations(module, design.image_size)
    return {
        "name": name,
        "space": space_of(genotype),
        "network": network,
        "parameters": parameters(module),
        "parameters_with_auxiliary": parameters(module, auxiliary=True) if has_head else None,
        "auxiliary": design.auxiliary,
        "multiply_adds": counted.multiply_adds,
        "multiply_adds_with_elementwise": counted.with_elementwise,
        "genotype": to_plain(genotype),
    }


def _with_head(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Nothing where there is no head."""
    count, norms = description["parameters_with_auxiliary"], description["auxiliary"]
    words = {"one-norm": "one batch norm", "two-norms": "two batch norms"}
    return [] if count is None else [("", f"{count:,} with auxiliary head of {words[norms]}")]
