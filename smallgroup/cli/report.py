"""Carry out `smallgroup report`: write the page and its drawings."""

from collections.abc import Sequence
from pathlib import Path

from smallgroup import pages
from smallgroup.cli.output import print_json, say
from smallgroup.report.files import write_drawings
from smallgroup.report.origins import missing_of


def run(folders: Sequence[Path], out: Path | None, svg: Path | None, pdf: Path | None, *, as_json: bool) -> None:
    """Write the report; everything is read before anything is written."""
    runs = pages.read_runs(folders)
    files = []
    for ending, folder in (("svg", svg), ("pdf", pdf)):
        if folder is not None:
            files += write_drawings(runs, folder, ending)
    made = pages.draw_report(*folders, out=out)
    if as_json:
        print_json({"report": str(made), "files": [str(file) for file in files]})
        return
    for sentence in dict.fromkeys(problem for each in runs for problem in (*each.problems, *missing_of(each))):
        say(f"warning: {sentence}", err=True)
    if files:
        say(f"{len(files)} drawings and figures in {', '.join(str(d) for d in (svg, pdf) if d is not None)}")
    say(made)
