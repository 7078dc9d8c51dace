"""The options of `study`."""

from pathlib import Path
from typing import Annotated

import typer

from smallgroup.cli import options


def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A study of `smallgroup list studies`, or a file like those.")
    ],
    *,
    recipe: options.Recipe = None,
    seeds: Annotated[str | None, typer.Option(metavar="1-10", help="Other seeds than the study's; also 1,4,7.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only rows with this in their name; may stand several times."),
    ] = None,
    changes: options.Changes = None,
    device: options.Device = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes, of one thread each.")] = 1,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where runs and tables are kept: a new or empty folder, or one of studies."),
    ] = Path("studies"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, and how long they would take.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try runs again that failed before.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="A line for every run that begins or ends.")] = False,
    json: options.Json = False,
) -> None:
    """Carry out a grid of runs and print its table.

    Runs are known by their config: one that is complete is never repeated, by this study or another one in the same
    folder, and a study that was stopped goes on. Ctrl-C saves and ends. Beside the table there are files of it
    (Markdown, CSV, LaTeX, JSON) and figures (SVG, PDF).
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.study.folder import check_for_studies  # noqa: PLC0415

    plan = early.plan_study(
        name, only or (), recipe=recipe, seeds=seeds, changes=changes or (), workers=workers, device=device
    )
    if not dry_run:
        check_for_studies(out)
    from smallgroup.cli.study import StudyRequest, run  # noqa: PLC0415

    run(plan, StudyRequest(out, workers, dry_run=dry_run, retry=retry, lines=lines, as_json=json))
