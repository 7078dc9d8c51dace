"""Which curves a run has: out of the rows of its metrics, each number with the line it comes from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from smallgroup.report.charts import Chart, ChartPoint, Series
from smallgroup.report.run import MetricsRow, Run, at, number_at, section_at
from smallgroup.runner.place import METRICS
from smallgroup.spaces.ground_truth import accuracy_on, caveat_of

MOST = 400
"""Epochs that are drawn; of more every n-th, and the last."""

REBUILT = "Dotted upright lines: networks were rebuilt."
RowValue = Callable[[MetricsRow], float | None]


def thinned(epochs: Sequence[int], most: int = MOST) -> list[int]:
    """Return at most so many of them, evenly spaced, with the first and the last."""
    if len(epochs) <= most:
        return list(epochs)
    step = -(-len(epochs) // most)
    return sorted({*epochs[::step], epochs[-1]})


def series_of(
    run: Run, learner: int, name: str, source: str, measure: RowValue, *, color: int = 0, dash: int = 0
) -> Series | None:
    """Return one line of a chart for a learner; None if it has no number."""
    points = []
    for epoch in thinned(run.epochs):
        row = run.row(learner, epoch)
        value = None if row is None else measure(row)
        if row is not None and value is not None:
            points.append(ChartPoint(epoch, value, row.line))
    return Series(name, tuple(points), source, color, dash, f"{run.front}{METRICS}") if points else None


def key(*path: str) -> RowValue:
    """Return a reader of the number below some keys of a row."""
    return lambda row: row.number(*path)


def mean_entropy(kind: str) -> RowValue:
    """Return a reader of the mean entropy of the edges of a kind of cell."""

    def measure(row: MetricsRow) -> float | None:
        values = row.numbers("edge_entropy", kind)
        return None if values is None else sum(values) / len(values)

    return measure


def gap(row: MetricsRow) -> float | None:
    """Return the error of the derived cell minus that of the mixed network, in points; None: not measured."""
    derived, mixed = row.number("derived_error"), row.number("w_error")
    return None if derived is None or mixed is None else derived - mixed


def charts_of(run: Run) -> list[Chart]:
    """Return every chart that has a line."""
    made = _search(run) if run.kind == "search" else _training(run)
    return [_broken(chart, run) for chart in made if chart.series and chart.values]


def _broken(chart: Chart, run: Run) -> Chart:
    """Return the chart with a line where networks were rebuilt: later values are of others."""
    if not run.rebuilds:
        return chart
    return replace(chart, about=f"{chart.about} {REBUILT}", breaks=tuple(run.rebuilds))


def _per_learner(run: Run, *wanted: tuple[str, str, RowValue]) -> tuple[Series, ...]:
    """Return a line per learner for each (title, source, measure); a learner has a color, a measure its dashes."""
    made: list[Series] = []
    for dash, (title, source, measure) in enumerate(wanted):
        lines = [
            series_of(run, k, f"{title} learner {k}".strip(), source, measure, color=place, dash=dash)
            for place, k in enumerate(run.learners)
        ]
        known = [line for line in lines if line is not None]
        # Lines that are the same would hide one another.
        alike = len(known) == len(lines) > 1 and len({_drawn(line) for line in known}) == 1
        made += [replace(known[0], name=f"{title} all learners".strip(), color=dash)] if alike else known
    return tuple(sorted(made, key=lambda line: line.color))


def _drawn(line: Series) -> tuple[tuple[int, float], ...]:
    return tuple((point.epoch, point.value) for point in line.points)


def _search(run: Run) -> Iterator[Chart]:
    yield Chart(
        "errors",
        "Errors of W and V",
        "%",
        "Validation images that the mixed network classifies wrongly, at the end of each epoch.",
        _per_learner(run, ("W", "w_error", key("w_error")), ("V", "v_error", key("v_error"))),
    )
    yield Chart(
        "validation-loss",
        "Validation loss of W",
        "nats",
        "What decides who is retained, measured on the images of the metrics.",
        _per_learner(run, ("", "w_validation_loss", key("w_validation_loss"))),
    )
    yield Chart(
        "training-losses",
        "Training losses",
        "nats",
        "Means over the steps of an epoch, on labeled images.",
        _per_learner(run, ("W", "w_loss", key("w_loss")), ("V", "v_loss", key("v_loss"))),
    )
    yield Chart(
        "peers-loss",
        "Loss of W on the labels of peers",
        "nats",
        "Mean over the steps of an epoch, lambda included.",
        _per_learner(run, ("", "w_unlabeled_loss", key("w_unlabeled_loss"))),
    )
    yield Chart(
        "derived-error",
        "Error of the derived cell",
        "%",
        "The discrete cell with the weights of the mixed network, untrained by itself.",
        _per_learner(run, ("", "derived_error", key("derived_error"))),
    )
    yield Chart(
        "gap",
        "Discretization gap",
        "points",
        "Error of the derived cell minus that of the mixed network.",
        _per_learner(run, ("", "derived_error - w_error", gap)),
    )
    yield Chart(
        "rates",
        "Learning rates",
        "",
        "Of W, V and the architecture.",
        _per_learner(run, *((role, f"{role.lower()}_lr", key(f"{role.lower()}_lr")) for role in ("W", "V", "A"))),
        log=True,
    )
    for k in run.learners:
        terms = [
            series_of(run, k, term, f"norm_{term}", key(f"norm_{term}"), color=number, dash=number)
            for number, term in enumerate(("direct", "own", "cross", "label"))
        ]
        known = [one for one in terms if one is not None]
        zero = [one.name for one in known if not any(point.value > 0 for point in one.points)]
        # A logarithm has no place for them.
        none = f" Always 0 and therefore not drawn: {', '.join(zero)}{_first_order(run)}." if zero else ""
        yield Chart(
            f"terms-{k}",
            f"Architecture gradient of learner {k}",
            "norm",
            f"The four terms: the mean L2 norm of each over the steps of an epoch.{none}",
            tuple(one for one in known if one.name not in zero),
            log=True,
        )
    yield Chart(
        "cosines",
        "Terms against the direct term",
        "cosine",
        "Below 0 a term pulls against the direct one.",
        _per_learner(run, *((term, f"cosine_{term}", key(f"cosine_{term}")) for term in ("own", "cross", "label"))),
    )
    for column in _columns(run):
        yield Chart(
            f"true-{column}",
            _capital(accuracy_on(column)),
            "%",
            f"Of the derived cell, {_origin(column)}. It is recorded and never used.",
            _per_learner(run, ("", f"true_accuracy.{column}", key("true_accuracy", column))),
        )
    yield Chart(
        "skips",
        "Skip connections",
        "edges",
        "A sign of collapse where half of the edges are.",
        _per_learner(run, ("", "skips", key("skips"))),
    )
    yield Chart(
        "entropy",
        "Entropy of the edges",
        "share",
        "1: undecided; below 0.1 the choice can hardly change any more.",
        _per_learner(run, *((kind, f"edge_entropy.{kind}, mean", mean_entropy(kind)) for kind in _kinds(run))),
    )
    yield Chart(
        "agreement",
        "Agreement between learners",
        "share",
        "Unlabeled images to which a learner gives the class that a peer gives.",
        _per_learner(run, ("", "agreement", key("agreement"))),
    )
    yield Chart(
        "label-entropy",
        "Entropy of soft labels",
        "nats",
        "How undecided the labels are that a learner gives.",
        _per_learner(run, ("", "label_entropy", key("label_entropy"))),
    )


def _first_order(run: Run) -> str:
    return (
        " (first-order takes the direct term alone)"
        if at(run.given.config, "search", "hypergradient") == "first-order"
        else ""
    )


def _training(run: Run) -> Iterator[Chart]:
    several = len(run.learners) > 1

    def lines(*wanted: tuple[str, str]) -> tuple[Series, ...]:
        found = [
            series_of(
                run,
                k,
                f"{title} {f'learner {k}' if several else ''}".strip(),
                name,
                key(name),
                color=i + place,
                dash=i,
            )
            for place, k in enumerate(run.learners)
            for i, (title, name) in enumerate(wanted)
        ]
        return tuple(one for one in found if one is not None)

    yield Chart(
        "training-errors",
        "Errors in training",
        "%",
        "Of augmented training images in training mode; of test images only where they were tracked.",
        lines(
            ("training error", "train_error"), ("validation error", "validation_error"), ("test error", "test_error")
        ),
    )
    yield Chart(
        "training-loss",
        "Loss in training",
        "nats",
        "Means over the images of an epoch.",
        lines(
            ("loss", "loss"),
            ("auxiliary loss", "auxiliary_loss"),
            ("divergence", "divergence"),
            ("loss of V", "v_loss"),
            ("loss on labels of peers", "taught_loss"),
            ("validation loss", "validation_loss"),
        ),
    )
    yield Chart("training-rate", "Learning rate", "", "From epoch to epoch.", lines(("rate", "lr")))
    yield Chart("drop-path", "Drop path", "probability", "From epoch to epoch.", lines(("drop path", "drop_path")))


def _columns(run: Run) -> list[str]:
    """Return the datasets of which true accuracies are known."""
    return sorted({str(column) for row in run.rows for column in section_at(row.values, "true_accuracy")})


def _origin(column: str) -> str:
    return caveat_of(column) or "from the benchmark's table"


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _kinds(run: Run) -> list[str]:
    return list(dict.fromkeys(str(kind) for row in run.rows for kind in section_at(row.values, "edge_entropy")))


def overlays(runs: Sequence[Run]) -> list[Chart]:
    """Draw several runs in one chart: the retained learner or the network of each."""
    wanted = [
        ("w_error", "Error of W, retained learner", "%", key("w_error")),
        ("w_validation_loss", "Validation loss of W, retained learner", "nats", key("w_validation_loss")),
        ("derived_error", "Error of the derived cell, retained learner", "%", key("derived_error")),
        ("agreement", "Agreement between learners", "share", key("agreement")),
        ("train_error", "Error in training", "%", key("train_error")),
    ]
    columns = sorted({column for run in runs for column in _columns(run)})
    wanted += [
        (f"true_accuracy.{c}", f"{_capital(accuracy_on(c))}, retained learner", "%", key("true_accuracy", c))
        for c in columns
    ]
    made = []
    for source, title, unit, measure in wanted:
        lines = [
            series_of(run, run.retained or 0, run.name, source, measure, color=place, dash=place)
            for place, run in enumerate(runs)
        ]
        found = tuple(
            replace(line, file=f"{run.name}/{line.file}")
            for line, run in zip(lines, runs, strict=True)
            if line is not None
        )
        if len(found) > 1:
            made.append(Chart(f"overlay-{source}", title, unit, "One line per run.", found))
    return [chart for chart in made if chart.values]


def final(run: Run, name: str) -> float | None:
    """Return a number of the result, or None where it is missing."""
    return number_at(run.result, name)
