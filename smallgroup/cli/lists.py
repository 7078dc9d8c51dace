"""`smallgroup list`."""

from collections.abc import Callable

from smallgroup import recipes
from smallgroup.cli.output import print_entries, print_json, say
from smallgroup.methods import METHODS
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces import SPACES
from smallgroup.spaces.genotypes import published_about
from smallgroup.study.names import built_in, keys_of_built_in


def run(what: str, *, as_json: bool, estimate: bool = True) -> None:
    """Names, and a line on each; of rows also how long they take here."""
    check_choice("what to list", what, tuple(LISTS))
    if what == "rows" and estimate:
        rows_with_times(as_json=as_json)
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


def _recipes() -> dict[str, str]:
    return {name: recipes.about(name) for name in recipes.names()}


def rows_with_times(*, as_json: bool) -> None:
    """Print the rows with an estimate of how many days each of them takes on this machine."""
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
            for time in row_times(recipes.rows(), tell)
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


_MEASURING = "measuring every network once, a few minutes; --no-estimate leaves it out"
_ROUGHLY = (
    "Days on this machine with the threads of the recipe, from passes of a few",
    "images: right to about a factor of 2. Reading images is not in it.",
)
_WHILE_BUSY = "warning: the machine is busy: these days may be far off, and are not kept"


def _days(seconds: float | None) -> float | None:
    """Return days with two digits, which is more than is known."""
    return None if seconds is None else float(f"{seconds / 86400:.2g}")


def _in_days(search_days: float | None, training_days: float | None) -> str:
    if search_days is None or training_days is None:
        which = "search" if search_days is None else "training"
        return f"the {which} needs more memory than is free"
    return f"about {search_days:,g} days of search and {training_days:,g} of training"


def _rows() -> dict[str, str]:
    """With what the architectures follow, which the names of rows do not tell."""
    from smallgroup.config import resolve  # noqa: PLC0415
    from smallgroup.phases.search.config import in_words  # noqa: PLC0415

    found = {}
    for row in recipes.rows():
        config = resolve(row.keys)
        gradient = in_words(config.search.hypergradient, taught=len(config.learners) > 1)
        found[f"table {row.table}, {row.name} ({row.recipe})"] = f"{row.command}  # {gradient}"
    return found


def _studies() -> dict[str, str]:
    return {name: str(keys_of_built_in(name).get("about", "")) for name in built_in()}


def _keys() -> dict[str, str]:
    from smallgroup.config import help_of_keys  # noqa: PLC0415

    return help_of_keys()


def _datasets() -> dict[str, str]:
    return {
        "digits": "handwritten digits of 8x8 pixels, part of scikit-learn: no download",
        "cifar10": "CIFAR-10, from the folder cifar-10-batches-py in the data root",
        "cifar100": "CIFAR-100, from the folder cifar-100-python in the data root",
        "imagenet": "ImageNet (ILSVRC 2012), from the folder imagenet in the data root",
        "folder:PATH": "your own images: one sub-folder per class, or train/ and val/ of those",
    }


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "genotypes": published_about,
    "methods": _methods,
    "spaces": _spaces,
    "datasets": _datasets,
    "recipes": _recipes,
    "studies": _studies,
    "rows": _rows,
    "keys": _keys,
}
