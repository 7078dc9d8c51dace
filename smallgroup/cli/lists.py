"""`smallgroup list`."""

import inspect
from collections.abc import Callable

from smallgroup.cli.output import print_columns, print_json
from smallgroup.runtime.checks import check_choice
from smallgroup.spaces.genotypes import published_about


def run(what: str, *, as_json: bool) -> None:
    """Names, and a line on each."""
    check_choice("what to list", what, tuple(LISTS))
    entries = LISTS[what]()
    if as_json:
        print_json([{"name": name, "about": about} for name, about in entries.items()])
    else:
        print_columns(entries.items())


def _methods() -> dict[str, str]:
    from smallgroup.methods import METHODS  # noqa: PLC0415 -- the other lists do not need it

    return {name: (inspect.getdoc(method) or "").partition("\n")[0] for name, method in METHODS.items()}


def _spaces() -> dict[str, str]:
    return {
        "darts": "a normal and a reduction cell of four nodes, eight operations per edge",
        "nas-bench-201": "one cell of six edges, five operations per edge; the accuracy of all 15,625 cells is known",
    }


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
}
