"""What results show of themselves in notebooks: their numbers as a table, and the cell as a picture.

Nothing in a view is a script or a style sheet. Names of classes, datasets and methods are escaped; a drawing is the
source of an image, in which a browser runs nothing.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.shown import draw_figure, draw_html
from smallgroup.phases.training import MutualResult, TrainResult
from smallgroup.report.cells import draw_cell, drawn
from smallgroup.report.shapes import svg
from smallgroup.runtime.text import escape_html
from smallgroup.spaces.genotypes import from_plain

MOST_LETTERS = 300
"""Of a text that is not ours; a name may be as long as a file."""


@draw_html.register
def html_of_search(result: SearchResult) -> str:
    """Return the answer of a search, each learner's numbers, and the cell."""
    head = ["learner", "method", "validation loss", "validation error, %", "balanced error, %"]
    rows = [
        [str(k), one.method, f"{one.validation_loss:.4f}", percent(one.validation_error), percent(one.balanced_error)]
        for k, one in enumerate(result.group)
    ]
    numbers = {
        "data": result.dataset,
        "space": result.space,
        "method": result.method,
        "learners": f"{result.learners}, lambda {result.lam:g}, {result.gradient}",
        "steps": f"{result.steps:,} in {result.seconds:.1f} s, seed {result.seed}",
        **{f"true accuracy, {name}": f"{value:.2f} %" for name, value in (result.true_accuracy or {}).items()},
    }
    return view(
        "Search",
        paragraph(result.answer.sentence),
        facts(numbers),
        table(head, rows),
        cells_of(result.answer_space, result.genotype, result.answer.whose),
    )


@draw_html.register
def html_of_training(result: TrainResult) -> str:
    """Return the errors and the size of a trained network, and its cell."""
    numbers = {
        "data": result.dataset,
        "test error": with_unit(result.test_error),
        "top-5 test error": with_unit(result.test_error_top5),
        "balanced error": with_unit(result.balanced_error),
        "training error": with_unit(result.train_error),
        "test images": result.test_set,
        "network": f"{result.parameters:,} parameters, {result.multiply_adds:,} multiply-adds",
        "length": f"{result.epochs:,} epochs, {result.steps:,} steps in {result.seconds:.1f} s, seed {result.seed}",
    }
    told = paragraph(result.choice) if result.choice else ""
    return view("Training", facts(numbers), told, cells_of(result.space, result.genotype, "the network"))


@draw_html.register
def html_of_peers(result: MutualResult) -> str:
    """Return the errors of networks that were trained together."""
    head = ["learner", "parameters", "multiply-adds", "training error, %", "test error, %"]
    rows = [
        [str(k), f"{one.parameters:,}", f"{one.multiply_adds:,}", percent(one.train_error), percent(one.test_error)]
        for k, one in enumerate(result.learners)
    ]
    numbers = {"data": result.dataset, "weight of the peers": f"{result.weight:g}", "test images": result.test_set}
    return view("Mutual learning", facts(numbers), table(head, rows))


def html_of_run(verdicts: Sequence[str], training: TrainResult, search: SearchResult) -> str:
    """Return the verdicts of a whole run, then its training and its search."""
    return view("Run", *map(paragraph, verdicts), html_of_training(training), html_of_search(search))


def compare_trainings(results: Sequence[tuple[str, TrainResult]]) -> Any:  # noqa: ANN401 -- as below
    """Return a figure of several trained networks by name."""
    from smallgroup.report import plots  # noqa: PLC0415

    sizes = {name: (float(result.multiply_adds), result.test_error) for name, result in results}
    return plots.compared({name: result.history for name, result in results}, sizes)


@draw_figure.register(SearchResult)
@draw_figure.register(TrainResult)
@draw_figure.register(MutualResult)
def _figure(result: Any) -> Any:  # noqa: ANN401 -- matplotlib is imported when it is needed
    from smallgroup.report import plots  # noqa: PLC0415

    return plots.figure_of(result)


def view(title: str, *parts: str) -> str:
    """Return a view of its parts, which are HTML."""
    return f"<div><strong>{escape_html(title)}</strong>{''.join(parts)}</div>"


def paragraph(words: str) -> str:
    """Return a text as an HTML paragraph, escaped."""
    return f"<p>{escaped(words)}</p>"


def facts(numbers: Mapping[str, str | None]) -> str:
    """Return names with their values; what is None is left out."""
    return table([], [[name, value] for name, value in numbers.items() if value is not None])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of texts, escaped."""
    top = f"<thead><tr>{''.join(f'<th>{escaped(one)}</th>' for one in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escaped(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"


def cells_of(space: str, genotype: Any, whose: str) -> str:  # noqa: ANN401 -- plain values
    """Return the cells of a genotype as images; where its space is not registered any more, its text."""
    try:
        drawings = [draw_cell(cell, whose) for cell in drawn(from_plain(space, genotype)).values()]
    except (ValueError, KeyError, TypeError):
        return paragraph(str(genotype))
    return "".join(
        f'<figure><figcaption>{escaped(one.title.capitalize())}</figcaption><img alt="{escaped(one.description)}" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(svg(one, standalone=True).encode()).decode()}"></figure>'
        for one in drawings
    )


def escaped(words: object) -> str:
    """Return a text that may not be ours as HTML, cut if it is long."""
    plain = str(words)
    return escape_html(plain if len(plain) <= MOST_LETTERS else f"{plain[:MOST_LETTERS]}...")


def percent(value: float | None) -> str:
    """Return a percentage for a table cell."""
    return "" if value is None else f"{value:.2f}"


def with_unit(value: float | None) -> str | None:
    """Return a percentage, or None if there is none."""
    return None if value is None else f"{value:.2f} %"
