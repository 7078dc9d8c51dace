"""The options of `report`, `show` and `watch`."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options


def report(
    runs: options.Runs,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. The default is report.html in the first run.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every drawing and figure as SVG.")] = None,
    pdf: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every drawing and figure as PDF.")] = None,
    json: options.Json = False,
) -> None:
    """Write an HTML page about one or several runs.

    The page opens anywhere without a network. For one run, it shows what it found, the cells over the epochs, curves,
    who taught whom, disputed images, time and config. For several runs, it shows a table, their curves in one chart,
    and what the group contributed if one of them is the same search with lambda = 0. Every run writes its own page when
    it ends.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_reported(runs)
    from smallgroup.cli.report import run as carry_out  # noqa: PLC0415

    carry_out(runs, out, svg, pdf, as_json=json)


def show(run: options.OneRun, json: options.Json = False) -> None:
    """Print the numbers, the cell and the curves of a run."""
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_runs([run])
    from smallgroup.cli.show import run as carry_out  # noqa: PLC0415

    carry_out(run, as_json=json)


def watch(
    run: options.OneRun,
    port: Annotated[
        int,
        typer.Option(
            parser=options.whole_number, metavar="NUMBER", help="Port to serve on; 0 (the default) picks a free one."
        ),
    ] = 0,
) -> None:
    """Serve the report of a run and update it while the run continues.

    Only this machine can open it. Ctrl-C stops it.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_runs([run])
    from smallgroup.cli.watch import run as carry_out  # noqa: PLC0415

    carry_out(run, port)
