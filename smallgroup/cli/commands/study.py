"""The command `study` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.study.engines import EngineName, engine_named


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="A study of `smallgroup list studies`, or a YAML file of the same form."
        ),
    ],
    *,
    recipe: options.Recipe = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1-10", help="Seeds to use instead of the study's; also 1,4,7.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only rows whose name contains this text; repeatable."),
    ] = None,
    changes: options.Changes = None,
    device: options.Device = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of parallel processes, each with one thread.")] = 1,
    engine: Annotated[
        EngineName,
        typer.Option(
            metavar="NAME",
            help="Where the N processes run: `local`, on this machine; `slurm`, in an array job, which is "
            "submitted and "
            "followed; `ray`, in tasks of Ray (needs `pip install 'smallgroup[ray]'`). All share the folder --out.",
        ),
    ] = "local",
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of sbatch, such as partition=cpu; repeatable."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for runs and tables: new, empty, or of earlier studies."),
    ] = Path("studies"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="List the runs and how long they would take, and with --engine slurm the script; run nothing.",
        ),
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="Print a line when a run starts or ends.")] = False,
    json: options.Json = False,
) -> None:
    """Run a grid of runs and print its table.

    Runs are identified by their config: a finished run is never repeated, by this study or by another one in the same
    folder, and an interrupted study resumes. Ctrl-C saves and stops. The table is also written to files (Markdown, CSV,
    LaTeX, JSON), with figures (SVG, PDF).
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.study.folder import check_for_studies  # noqa: PLC0415

    carrier, here = engine_named(engine, slurm or ()), engine == "local"
    plan = early.plan_study(
        name, only or (), recipe=recipe, seeds=seeds, changes=changes or (), workers=workers, device=device, here=here
    )
    if not dry_run:
        check_for_studies(out)
        carrier.check()
    from smallgroup.cli.study import StudyRequest, run  # noqa: PLC0415

    run(plan, StudyRequest(out, workers, carrier, dry_run=dry_run, retry=retry, lines=lines, as_json=json))
