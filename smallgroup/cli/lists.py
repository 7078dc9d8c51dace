"""`smallgroup list`."""

from collections.abc import Callable

from smallgroup import recipes
from smallgroup.cli.output import print_entries, print_json
from smallgroup.methods import METHODS
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces import SPACES
from smallgroup.spaces.genotypes import published_about
from smallgroup.study.names import built_in, keys_of_built_in


def run(what: str, *, as_json: bool) -> None:
    """Names, and a line on each."""
    check_choice("what to list", what, tuple(LISTS))
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
