"""Options of the command line that were given, as keys of a config."""

from typing import Any

PLUGINS: list[str] = []
"""Those of the command line, taken from it before it is parsed."""


def given_options(**values: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of options
    """Return the options that were given."""
    return {key: value for key, value in values.items() if value is not None and value != []}


def options_of_run(**values: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of options
    """Return the options of a run that were given, and the plugins that it needs."""
    return given_options(**values, plugins=list(PLUGINS))


def training_section(
    track_test: bool, *, learners: int | None = None, lam: float | None = None, **limits: float | None
) -> dict[str, Any] | None:
    """Return the section `training` out of options of its own; None where none of them was given."""
    group = given_options(**{"learners": learners, "lambda": lam}) or None
    return given_options(track_test=True if track_test else None, **limits, group=group) or None
