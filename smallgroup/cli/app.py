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


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"a whole number is needed, but got {text[:40]!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"a number is needed, but got {text[:40]!r}") from None


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


@app.command()
def search(
    *,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="digits (the default), cifar10, cifar100, imagenet or folder:PATH."),
    ] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where unlabelled images come from: the same names, any images of folder:PATH, split (part of the "
            "training images without their labels) or train (the training images again).",
        ),
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(help="Where data is looked for; else the variable SMALLGROUP_DATA, else the cache folder."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="The method of every learner: see `smallgroup list methods`.")
    ] = None,
    space: Annotated[
        str | None, typer.Option(metavar="NAME", help="What may be found: see `smallgroup list spaces`.")
    ] = None,
    learners: Annotated[
        int | None,
        typer.Option(parser=_whole, metavar="K", help="How many learners; 1 is the plain method. The default is 2."),
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(
            "--lambda", parser=_number, metavar="NUMBER", help="Weight of the labels of peers; 0: no teaching."
        ),
    ] = None,
    hypergradient: Annotated[
        str | None,
        typer.Option(
            metavar="first-order|finite-difference|exact",
            help="How the architecture gradient passes through the steps of the weights.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=_whole, metavar="NUMBER", help="Every random number is a function of it. The default is 0."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="1-5", help="Several searches, one per seed, with mean and spread; also 1,4,7."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="quick|paper|released-code",
            help="Where all comes from that is not given: quick (the default) takes minutes on a CPU; paper and "
            "released-code have the published settings.",
        ),
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="30m", help="Size the epochs to fit into this time: 90s, 30m, 1h30m. With --seeds, each."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML with any keys of a config, such as that of another run.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set one key, such as search.epochs=20; may stand several times. `smallgroup list keys` has them all.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder. The default is a new one below runs/.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --out, bit for bit, with the config it was begun with."),
    ] = False,
    allow_drift: Annotated[
        bool, typer.Option("--allow-drift", help="Resume even where other software or hardware may give other bits.")
    ] = False,
    json: Json = False,
) -> None:
    """Search a cell with a group of learners that teach one another.

    Without options two DARTS learners search a cell for handwritten digits, in about a minute. What is given here
    stands above --config, and that above the recipe. The run's folder has config.yaml, metrics.jsonl (a line per epoch
    and learner), checkpoints, genotype.json and result.json. Ctrl-C saves and ends; a second one ends at once.
    """
    from smallgroup.cli.search import Wanted, run  # noqa: PLC0415

    options = {
        "dataset": dataset,
        "unlabeled": unlabeled,
        "data_root": data_root,
        "method": method,
        "space": space,
        "learners": learners,
        "lambda": lam,
        "hypergradient": hypergradient,
        "seed": seed,
        "recipe": recipe,
    }
    given = {key: value for key, value in options.items() if value is not None}
    wanted = Wanted(given, tuple(set_ or ()), config, out, seeds, time_budget, resume=resume, allow_drift=allow_drift)
    run(wanted, as_json=json)


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(metavar="genotypes|methods|spaces|datasets|recipes|keys", help="What to list.")
    ],
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
