"""`smallgroup describe`."""

import torch
import typer

from smallgroup.cli.output import print_columns, print_json
from smallgroup.networks import build_network, image_size, multiply_adds, parameters
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import resolve, space_of, to_plain


def run(texts: list[str], network: str, *, as_json: bool) -> None:
    """Everything is read before anything is printed: a typo in the last one is not found after a page of output."""
    genotypes = [resolve(text) for text in texts]
    descriptions = []
    for name, genotype in genotypes:
        with torch.device("meta"):
            module = build_network(genotype, network)
        descriptions.append(
            {
                "name": name,
                "space": space_of(genotype),
                "network": network,
                "parameters": parameters(module),
                "multiply_adds": multiply_adds(module, image_size(genotype, network)),
                "genotype": to_plain(genotype),
            }
        )
    if as_json:
        print_json(descriptions)
        return
    for index, ((name, genotype), description) in enumerate(zip(genotypes, descriptions, strict=True)):
        typer.echo("\n" * (index > 0) + name)
        size = image_size(genotype, network)
        print_columns(
            [
                ("space", description["space"]),
                ("network", f"{network}, images of {size}x{size}"),
                ("parameters", f"{description['parameters']:,}"),
                ("multiply-adds", f"{description['multiply_adds']:,}"),
            ]
        )
        typer.echo("\n" + draw(genotype))
