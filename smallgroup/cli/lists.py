"""Carry out `smallgroup list`: print what can be chosen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smallgroup import recipes
from smallgroup.cli.output import print_entries, print_json, say
from smallgroup.data import DATASETS
from smallgroup.data.names import usage_of
from smallgroup.exporters import EXPORTERS
from smallgroup.methods import METHODS
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.device_names import AUTO, check_device_name, check_possible
from smallgroup.spaces import GROUND_TRUTHS, SPACES
from smallgroup.spaces.genotypes import published_about
from smallgroup.study.names import built_in, keys_of_built_in


def run(
    what: str,
    *,
    as_json: bool,
    estimate: bool = True,
    given: Mapping[str, Any] | None = None,
    changes: Sequence[str] = (),
    device: str | None = None,
) -> None:
    """Print names with a line on each; for rows also their time here, for keys their values."""
    check_choice("what to list", what, tuple(LISTS))
    if device is not None and not (what == "rows" and estimate):
        raise ValueError(
            "--device says where to measure how long rows take, so it needs `list rows` without --no-estimate"
        )
    if what == "keys":
        _print_keys(given or {}, changes, as_json=as_json)
        return
    if given or changes:
        raise ValueError(f"options of a run can only be used with `list keys`, but got `list {what}`")
    if what == "rows" and estimate:
        check_possible(check_device_name(device or AUTO))
        rows_with_times(device or AUTO, as_json=as_json)
        return
    entries = LISTS[what]()
    if as_json:
        print_json([{"name": name, "about": about} for name, about in entries.items()])
    else:
        print_entries(entries.items())


def _methods() -> dict[str, str]:
    return {name: METHODS.about(name) for name in METHODS}


def _spaces() -> dict[str, str]:
    return {name: SPACES.about(name) for name in SPACES}


def _ground_truths() -> dict[str, str]:
    return {name: GROUND_TRUTHS.about(name) for name in GROUND_TRUTHS}


def _exporters() -> dict[str, str]:
    return {name: EXPORTERS.about(name) for name in EXPORTERS}


def _recipes() -> dict[str, str]:
    return {name: recipes.about(name) for name in recipes.names()}


def rows_with_times(device: str = AUTO, *, as_json: bool) -> None:
    """Print the rows with an estimate of how many days each of them takes on a device of this machine."""
    from smallgroup.display.console import CleanConsole  # noqa: PLC0415
    from smallgroup.study.row_times import machine_is_busy, row_times  # noqa: PLC0415

    entries, busy, console = _rows(), machine_is_busy(), CleanConsole(stderr=True)
    measured: list[str] = []

    def tell(words: str) -> None:
        if not measured and not as_json:
            say(_MEASURING, err=True)
        measured.append(words)
        status.update(f"measuring {words}")

    with console.status("") as status:
        times = [
            {"search_days": _days(time.search), "training_days": _days(time.training)}
            for time in row_times(recipes.rows(), tell, device)
        ]
    texts = [f"{about}; {_in_days(**days)}" for about, days in zip(entries.values(), times, strict=True)]
    if as_json:
        named = zip(entries, texts, times, strict=True)
        print_json([{"name": name, "about": text, **days} for name, text, days in named])
    else:
        print_entries(zip(entries, texts, strict=True))
        say("", *_ROUGHLY, err=True)
    if measured and busy:
        say(_WHILE_BUSY, err=True)


_MEASURING = "measuring every network once, five minutes or more; --no-estimate skips this"
_ROUGHLY = (
    "Days on this machine with the threads of the recipe, from passes over a few",
    "images: right to about a factor of 2, without the time to read images.",
)
_WHILE_BUSY = "warning: the machine is busy: estimates may be far off and are not cached"


def _days(seconds: float | None) -> float | None:
    """Return days with two digits, which is more than is known."""
    return None if seconds is None else float(f"{seconds / 86400:.2g}")


def _in_days(search_days: float | None, training_days: float | None) -> str:
    if search_days is None or training_days is None:
        which = "search" if search_days is None else "training"
        return f"the {which} needs more memory than is free"
    return f"about {search_days:,g} days of search and {training_days:,g} of training"


def _rows() -> dict[str, str]:
    """Return rows with what their architectures follow, which their names do not tell."""
    from smallgroup.config import resolve  # noqa: PLC0415
    from smallgroup.phases.search.config import in_words  # noqa: PLC0415

    found = {}
    for row in recipes.rows():
        config = resolve(row.keys)
        gradient = in_words(config.search.hypergradient, taught=len(config.learners) > 1)
        found[f"table {row.table}, {row.name} ({row.recipe})"] = f"{row.command}  # {gradient}"
    return found


def _references() -> dict[str, str]:
    return {f"table {one.table}, {one.name}": str(one) for one in recipes.references()}


def _studies() -> dict[str, str]:
    return {name: str(keys_of_built_in(name).get("about", "")) for name in built_in()}


def _print_keys(given: Mapping[str, Any], changes: Sequence[str], *, as_json: bool) -> None:
    """Print every key with its value under a recipe, the origin of the value, and a line of help."""
    from smallgroup.origins import key_values  # noqa: PLC0415

    found = key_values(given, changes)
    if as_json:
        print_json([{"name": k.key, "value": k.value, "from": k.origin, "about": k.help} for k in found])
    else:
        print_entries((k.key, k.line) for k in found)


def _datasets() -> dict[str, str]:
    usable = dict(DATASETS.usable())
    return {usage_of(name) if name in usable else name: DATASETS.about(name) for name in DATASETS}


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "genotypes": published_about,
    "methods": _methods,
    "spaces": _spaces,
    "datasets": _datasets,
    "ground-truths": _ground_truths,
    "exporters": _exporters,
    "recipes": _recipes,
    "studies": _studies,
    "rows": _rows,
    "references": _references,
    "keys": dict,  # printed apart, with their values
}
