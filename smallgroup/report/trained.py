"""The trainings of a run: the network found beside its baselines, in one chart and as points."""

from smallgroup.report.charts import Chart
from smallgroup.report.curves import charts_of, key, series_of
from smallgroup.report.detail import Detail
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, number_at
from smallgroup.report.scatter import NetworkPoint, draw_scatter
from smallgroup.report.shapes import svg
from smallgroup.report.views import HOW_TO_READ, chart_figure

NAMES = {"training": "searched", "resnet": "ResNet", "random": "random cell", "all-3x3": "all-3x3"}
"""Short enough for the end of a line."""
MEASURES = (("validation_error", "Validation"), ("train_error", "Training"))
"""What may be drawn of all trainings, the first that they have."""


def together(run: Run) -> Chart | None:
    """Draw the curves of all trainings of a whole run in one chart; None if there is only one training."""
    parts = {name: part for name, part in run.parts.items() if name in NAMES}
    for source, words in MEASURES:
        found = [
            series_of(part, part.retained or 0, NAMES[name], source, key(source), color=place, dash=place)
            for place, (name, part) in enumerate(parts.items())
        ]
        lines = tuple(line for line in found if line is not None)
        if len(lines) == len(parts) > 1:
            title = f"{words} error of the network found and its baselines"
            return Chart("together", title, "%", "Each was trained in the same way, once.", lines)
    return None


def points_of(run: Run) -> list[NetworkPoint]:
    """Return the trained networks of a whole run that have been tested."""
    found = []
    for color, (name, part) in enumerate((name, part) for name, part in run.parts.items() if name in NAMES):
        error, cost = number_at(part.result, "test_error"), number_at(part.result, "multiply_adds")
        if error is not None and cost is not None:
            found.append(NetworkPoint(NAMES[name], cost, error, f"{part.front}result.json", color))
    return found


def training_section(run: Run, prefix: str, detail: Detail) -> Markup | None:
    """Draw the curves of a training; of a whole run those of its baselines too, and errors against cost."""
    training = run if run.kind == "training" else run.parts.get("training")
    if training is None:
        return None
    front = prefix if training is run else f"{prefix}training-"
    chart, points = together(run), points_of(run)
    figures = [] if chart is None else [chart_figure(chart, front, detail)]
    if len(points) > 1:
        figures.append(render("scatter.html", anchor=f"{front}cost", svg=svg(draw_scatter(points)), points=points))
    figures += [chart_figure(one, front, detail) for one in charts_of(training)]
    if not figures:
        return None
    return render("grid.html", anchor=f"{front}curves", title="Training", about=HOW_TO_READ, figures=figures)
