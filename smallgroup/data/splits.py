"""Which image is used for what: disjoint parts of the training images, drawn class by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from smallgroup.data.dataset import Dataset, Proportions, class_counts
from smallgroup.data.errors import DataError
from smallgroup.runtime import stream
from smallgroup.runtime.text import quoted, shown

ImageOrder = Literal["stratified", "file"]
"""`stratified`: by class and seed. `file`: first and last images as they lie in the files, as in the released code."""

TEST_SHARE = 0.2
"""Of data that have no test part."""


@dataclass(frozen=True)
class Splits:
    """Indices of the training images for each purpose, in ascending order."""

    train: Tensor
    validation: Tensor
    unlabeled: Tensor | None
    """None: the unlabeled images come from elsewhere."""
    held_out: Tensor
    """Images for choosing lambda and the number of learners; in no other part."""


def split(
    dataset: Dataset,
    *,
    seed: int,
    unlabeled: Literal["split", "train"] | None = None,
    held_out: float = 0.0,
    order: ImageOrder = "stratified",
    proportions: Proportions | None = None,
) -> Splits:
    """Divide the training images of a dataset.

    `held_out` is a share of all of them, taken from train and validation in equal numbers: with the same seed both are
    the same images as without it, less the held-out ones. `unlabeled="split"` takes images away from both, too.
    """
    given = proportions or dataset.proportions
    check_classes(dataset)
    for name, share in [("labeled", given.labeled), ("train", given.train), ("unlabeled", given.unlabeled)]:
        if not 0 < share <= 1:
            raise DataError(f"0 < {name} <= 1 must hold for the share of images, but got {name}={share:g}")
    without = given.unlabeled if unlabeled == "split" else 0.0
    labeled = min(given.labeled, 1 - without)
    train = labeled * given.train - held_out / 2
    validation = labeled - labeled * given.train - held_out / 2
    if not 0 <= held_out < 1 or min(train, validation) <= 0:
        raise DataError(
            f"train and validation must keep images, but with held_out={held_out:g} and unlabeled={without:g} "
            f"their shares are {train:.3g} and {validation:.3g}"
        )
    shares = (train, held_out, validation, without)
    labels, classes = dataset.labels(), dataset.classes
    if order == "stratified":
        parts = stratified(labels, classes, shares, seed, "split")
    else:
        parts = in_file_order(len(labels), shares)
        for name, part in [("training", parts[0]), ("validation", parts[2])]:
            _require_every_class(labels[part], classes, f"the {name} part of {dataset.name} in file order")
    hidden = parts[3] if unlabeled == "split" else parts[0] if unlabeled == "train" else None
    return Splits(parts[0], parts[2], hidden, parts[1])


def check_classes(dataset: Dataset) -> None:
    """Refuse what cannot be learned: fewer than two classes, or a class without images."""
    if len(dataset.classes) < 2:
        raise DataError(f"{shown(dataset.name)} must have at least 2 classes, but it has {len(dataset.classes)}")
    _require_every_class(dataset.labels(), dataset.classes, f"the training part of {shown(dataset.name)}")


def stratified(
    labels: Tensor, classes: tuple[str, ...], shares: Sequence[float], *key: int | str
) -> tuple[Tensor, ...]:
    """Return disjoint parts with these shares of every class; the key names the random stream.

    What does not divide is carried on to the next class, so that the parts as a whole have their shares as well.
    Each part gets an image of every class, or an error names the class that is too small.
    """
    parts: list[list[Tensor]] = [[] for _ in shares]
    before = 0
    for number, count in enumerate(class_counts(labels, classes)):
        members = (labels == number).nonzero().flatten()
        members = members[torch.randperm(count, generator=stream(*key, number))]
        cuts = [_cut(total, before, count) for total in torch.tensor(shares, dtype=torch.float64).cumsum(0).tolist()]
        sizes = _sizes(cuts, shares, count)
        if sizes is None:
            needed = sum(share > 0 for share in shares)
            raise DataError(
                f"class {quoted(classes[number])} must have at least {needed} images to be split, but it has {count}"
            )
        for part, piece in zip(parts, torch.split(members, [*sizes, count - sum(sizes)])[:-1], strict=True):
            part.append(piece)
        before += count
    return tuple(torch.cat(part).sort().values for part in parts)


def set_aside(labels: Tensor, classes: tuple[str, ...], *key: int | str) -> tuple[Tensor, Tensor] | None:
    """Return places of test images, a fifth of every class, and of the others; None where classes are too small."""
    if min(class_counts(labels, classes)) < 5:
        return None
    test, train = stratified(labels, classes, (TEST_SHARE, 1 - TEST_SHARE), *key, "test part")
    return test, train


def in_file_order(count: int, shares: Sequence[float]) -> tuple[Tensor, ...]:
    """Return consecutive ranges of indices with these shares."""
    edges = [_cut(total, 0, count) for total in torch.tensor(shares, dtype=torch.float64).cumsum(0).tolist()]
    return tuple(torch.arange(low, high) for low, high in zip([0, *edges[:-1]], edges, strict=True))


def _cut(share: float, before: int, count: int) -> int:
    """Return how many of the next `count` images lie below a share of all, plus a hair: 0.9 * 10 may be below 9."""
    return int(share * (before + count) + 1e-6) - int(share * before + 1e-6)


def _sizes(cuts: list[int], shares: Sequence[float], count: int) -> list[int] | None:
    """Return sizes of parts from their upper cuts, none with a positive share empty; None if there are too few."""
    if count < sum(share > 0 for share in shares):
        return None
    sizes, low = [], 0
    for cut in cuts:
        high = max(low, min(cut, count))
        sizes.append(high - low)
        low = high
    for place, share in enumerate(shares):
        if share > 0 and sizes[place] == 0:
            if sum(sizes) == count:
                sizes[sizes.index(max(sizes))] -= 1
            sizes[place] = 1
    return sizes


def _require_every_class(labels: Tensor, classes: tuple[str, ...], where: str) -> None:
    counts = class_counts(labels, classes)
    if 0 in counts:
        missing = [shown(name) for name, count in zip(classes, counts, strict=True) if not count]
        more = f" and {len(missing) - 1} others have" if len(missing) > 1 else " has"
        raise DataError(f"every class must have images in {where}, but {missing[0]!r}{more} none")


def mixed(indices: Tensor) -> Tensor:
    """Return the same indices in an order that does not depend on their order before."""
    return indices.sort().values[torch.randperm(len(indices), generator=stream("evaluation", len(indices)))]
