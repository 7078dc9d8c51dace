"""The commands and their options. What they do is imported when they are called: `--help` waits for nothing."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup import __version__

app = typer.Typer(
    name="smallgroup",
    help="Neural architecture search in which a small group of learners teach one another.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[  # noqa: ARG001 -- taken from the command line before it is parsed, wherever it stands
        bool, typer.Option("--debug", help="Show where an error comes from. May stand anywhere in the line.")
    ] = False,
) -> None:
    """What may stand before a command."""
    if version:
        typer.echo(f"smallgroup {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


@app.command()
def describe(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE",
            help="A published name, a file or a run's folder, JSON, the notation Genotype(normal=[...], ...) of the "
            "DARTS papers, or a NAS-Bench-201 cell |op~0|+|op~0|op~1|+|op~0|op~1|op~2|.",
        ),
    ],
    network: Annotated[
        str,
        typer.Option(metavar="cifar10|cifar100|imagenet", help="The full network whose size is given."),
    ] = "cifar10",
    json: Json = False,
) -> None:
    """Parameters, multiply-adds and a drawing of genotypes.

    Multiply-adds are those of convolutions and linear layers for one image, which has 32x32 pixels for CIFAR and
    224x224 for ImageNet. Around a cell of NAS-Bench-201, imagenet is that benchmark's own: 16x16 and 120 classes.
    """
    from smallgroup.cli.describe import run  # noqa: PLC0415

    run(genotypes, network, as_json=json)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="genotypes|methods|spaces|datasets", help="What to list.")],
    json: Json = False,
) -> None:
    """What there is to choose from, with a line on each."""
    from smallgroup.cli.lists import run  # noqa: PLC0415

    run(what, as_json=json)


@app.command()
def doctor(
    folders: Annotated[
        list[str] | None, typer.Argument(metavar="folder:PATH", help="Folders of images to look at as well.")
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(help="Where data is looked for; else the variable SMALLGROUP_DATA, else the cache folder."),
    ] = None,
    json: Json = False,
) -> None:
    """What this machine has: versions, devices, data, and what is wrong with them.

    The exit code is 1 if data is damaged or a folder named here cannot be used. Data that is not there is no error.
    """
    from smallgroup.cli.doctor import run  # noqa: PLC0415

    run(data_root, tuple(folders or ()), as_json=json)
