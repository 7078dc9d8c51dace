"""Results in Python and notebooks: a table of their metrics, a figure, and an HTML view.

Views are drawn in a higher layer, `smallgroup.report.notebook`, which registers them here when it is imported.
"""

from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

Scalar = str | float | int | bool | None


class ShownResult:
    """A result that has a table of metrics, a plot, and a view of its own in notebooks."""

    _history: tuple[dict[str, Scalar], ...] = ()

    @property
    def history(self) -> tuple[dict[str, Scalar], ...]:
        """The metrics of every epoch and learner; none for a result that was only read from its file."""
        return self._history

    def keep_history(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the numbers and names of `metrics.jsonl`; lists, such as those of classes, are left out."""
        object.__setattr__(self, "_history", tuple(scalars_of(row) for row in rows))

    def metrics(self) -> Any:  # noqa: ANN401 -- pandas is optional
        """Return the metrics of every epoch as a table, with a row per learner.

        It is a `pandas.DataFrame` if pandas is installed, else a list of dictionaries. Epochs count from 0, as in
        `metrics.jsonl`.
        """
        return as_table(self.history)

    def plot(self) -> Any:  # noqa: ANN401 -- this layer knows no matplotlib
        """Return a `matplotlib.figure.Figure` of this result. Notebooks display it; `savefig` writes it to a file."""
        return draw_figure(self)

    def _repr_html_(self) -> str | None:
        return draw_html(self)


@singledispatch
def draw_html(result: object) -> str | None:  # noqa: ARG001 -- an implementation per type is registered
    """Return the view of a result for notebooks; None where no view is registered for its type."""
    return None


@singledispatch
def draw_figure(result: object) -> Any:  # noqa: ANN401
    """Return the figure of a result."""
    name = type(result).__name__
    raise TypeError(f"smallgroup.report.notebook must be imported to plot results, but it has no plot of {name}")


def scalars_of(row: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the single values of a row; those of a dictionary get the names KEY.NAME."""
    found: dict[str, Scalar] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{name}": one for name, one in value.items() if isinstance(one, str | float | int)}
        elif value is None or isinstance(value, str | float | int):
            found[key] = value
    return found


def as_table(rows: Iterable[Mapping[str, Scalar]]) -> Any:  # noqa: ANN401 -- pandas is optional
    """Return rows as a data frame, or as a list of dictionaries where pandas is not installed."""
    plain = [dict(row) for row in rows]
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        return plain
    return pd.DataFrame(plain)
