"""The command: what may stand before a subcommand, and the list of subcommands."""

from typing import Annotated

import typer

from smallgroup.cli.commands import bench
from smallgroup.cli.commands.inform import describe, doctor, list_
from smallgroup.cli.commands.look import report, show, watch
from smallgroup.cli.commands.model import evaluate, export, predict
from smallgroup.cli.commands.search import run, search
from smallgroup.cli.commands.shards import shards
from smallgroup.cli.commands.study import study
from smallgroup.cli.commands.train import mutual, train
from smallgroup.cli.launching import check_launched
from smallgroup.cli.plain_help import PlainCommand
from smallgroup.version import __version__

app = typer.Typer(
    name="smallgroup",
    help="Neural architecture search in which a small group of learners teach one another.\n\n"
    "Start with `smallgroup run`, on handwritten digits, or `smallgroup run --dataset folder:PATH`, on your images.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markup eats [onnx] and keeps the line breaks of docstrings
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[  # noqa: ARG001 -- taken from the command line before it is parsed, wherever it stands
        bool, typer.Option("--debug", help="Show where an error comes from. Allowed anywhere in the command.")
    ] = False,
    plugin: Annotated[  # noqa: ARG001 -- likewise
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import a module, or a file that ends in .py, that registers methods, spaces or data of your own. "
            "Allowed anywhere in the command; repeatable.",
        ),
    ] = None,
) -> None:
    """Handle the options that may stand before a command."""
    if version:
        typer.echo(f"smallgroup {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        check_launched(context.invoked_subcommand)
        return
    raise typer.Exit


for command in (  # as a new user meets them
    run,
    search,
    train,
    predict,
    evaluate,
    export,
    report,
    show,
    watch,
    describe,
    list_,
    doctor,
    study,
    mutual,
    shards,
):
    app.command(
        name=command.__name__.rstrip("_"),  # `list` is a name of Python's
        cls=PlainCommand,
        epilog="--debug and --plugin MODULE are allowed anywhere in a command: see `smallgroup --help`.",
    )(command)
app.add_typer(bench.app)
