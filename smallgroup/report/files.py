"""Drawings and figures of runs as files, for papers and talks."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from smallgroup.report.answer import cells_of
from smallgroup.report.cells import draw_cell
from smallgroup.report.charts import draw_chart
from smallgroup.report.curves import charts_of, overlays
from smallgroup.report.detail import Detail
from smallgroup.report.heat import draw_heat
from smallgroup.report.pdf import write_pdf
from smallgroup.report.run import Run
from smallgroup.report.shapes import Drawing, svg
from smallgroup.report.views import courses_of
from smallgroup.runtime.files import write_whole
from smallgroup.spaces import SPACES


def drawings_of(runs: Sequence[Run]) -> Iterator[tuple[str, Drawing]]:
    """Yield every drawing with a name for its file; those of several runs have the number of theirs in front."""
    for place, run in enumerate(runs):
        front = f"{place}-{run.name}-" if len(runs) > 1 else ""
        yield from ((f"{front}found-{number}", drawing) for number, drawing in enumerate(cells_of(run)))
        yield from ((f"{front}{chart.key}", draw_chart(chart, legend=True)) for chart in charts_of(run))
        for course in courses_of(run, Detail().frames) if run.kind == "search" else ():
            whose, last = f"learner {course.learner}", max(course.cells)
            name = f"learner-{course.learner}-{course.kind}"
            yield f"{front}cell-{name}", draw_cell(course.cells[last], whose)
            space = SPACES.get(run.space(course.learner))
            if len(course.tables) > 1 and space is not None:
                yield f"{front}weights-{name}", draw_heat(space.kinds[course.kind], course.tables, whose)
    if len(runs) > 1:
        yield from ((chart.key, draw_chart(chart, legend=True)) for chart in overlays(runs))


def write_drawings(runs: Sequence[Run], folder: Path, ending: str) -> list[Path]:
    """Write all drawings as `svg` or `pdf`, and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, drawing in drawings_of(runs):
        path = folder / f"{plain(name)}.{ending}"
        if ending == "svg":
            write_whole(path, svg(drawing, standalone=True) + "\n")
        else:
            write_pdf(drawing, path)
        made.append(path)
    return made


def plain(name: str) -> str:
    """Return a name that every file system accepts, whatever the run's name is."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:100] or "drawing"
