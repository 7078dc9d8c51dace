"""Datasets of Hugging Face, through its library `datasets`, which is imported when one is opened.

No code of a dataset is run. Scripts are refused by the library from version 4 on, and pickles from 5.2 on; nothing here
asks it to trust either. Names of the Hub have an owner: the bare names of the library mean its own readers.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smallgroup.data.errors import DataError, reason
from smallgroup.data.roots import expanded
from smallgroup.data.source import Source
from smallgroup.runtime.text import quoted, shown

if TYPE_CHECKING:
    from smallgroup.data.checking import BadImages
    from smallgroup.data.dataset import Dataset
    from smallgroup.data.images import Images
    from smallgroup.data.own import OwnData

LOWEST = (5, 2)
"""Lowest version of the `datasets` library that is accepted."""
SAVED = ("dataset_dict.json", "state.json")
"""A folder that the library has saved has one of these: several splits, or one."""
TESTS = ("test", "validation")
"""Splits that are the test part, the first that is there."""
_KNOWN: dict[tuple[str, ...], "OwnData"] = {}
"""What was read last, by its name and what the library knows its splits by: a run opens its data several times."""


class Hub(Source):
    """A dataset of Hugging Face, OWNER/NAME on the Hub or a folder saved by its library; needs the extra hub."""

    name = "hf"
    takes = "NAME"

    @property
    def full_name(self) -> str:
        """The name as the config has it."""
        return f"{self.name}:{shown(self.argument)}"

    def where(self) -> Path | str:
        """Return the folder that the library saved, or the words for the Hub."""
        return expanded(self.argument) if self._is_saved() else "Hugging Face Hub"

    def require(self, what: str = "a dataset") -> None:
        """Refuse names and folders that cannot be a dataset, and a missing or old library."""
        if not self._is_saved() and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*(?<!\.py)", self.argument):
            raise DataError(
                f"{what} 'hf:NAME' must be OWNER/NAME on the Hugging Face Hub, or a folder that its library has saved "
                f"by save_to_disk, but got {quoted(self.argument)}"
            )
        if not self._is_saved() and expanded(self.argument).exists():
            raise DataError(
                f"{what} 'hf:NAME' must be a folder that the library of Hugging Face has saved by save_to_disk, but "
                f"{shown(self.argument)} has none of {', '.join(SAVED)}"
            )
        try:
            found = version("datasets")
        except PackageNotFoundError:
            raise DataError(
                f"{self.full_name} needs the package datasets, which is not installed: pip install 'smallgroup[hub]'"
            ) from None
        if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < LOWEST:
            lowest = ".".join(map(str, LOWEST))
            raise DataError(
                f"{self.full_name} needs datasets {lowest} or newer, which runs no code of a dataset, but {found} is "
                "installed: pip install 'smallgroup[hub]'"
            )

    def open(self, size: int | None = None, bad: "BadImages | None" = None) -> "Dataset":  # noqa: ARG002
        """Open the splits of the dataset; none of its code is run."""
        splits = self._splits()
        tests = [name for name in TESTS if name in splits]
        parts = [splits["train"], *(splits[name] for name in tests[:1])]
        key = (self.argument, *(str(part._fingerprint) for part in parts))
        if key not in _KNOWN:
            read = self._read(parts)
            _KNOWN.clear()
            _KNOWN[key] = read
        dataset = _KNOWN[key].open(size, self.full_name)
        if len(tests) < 2:
            return dataset
        note = f"{self.full_name} has test and validation: test is the test part and validation is not used"
        return replace(dataset, notes=(note, *dataset.notes))

    def open_unlabeled(self, like: "Dataset", bad: "BadImages | None" = None) -> "Images":  # noqa: ARG002
        """Return the images of the training split; a column of labels is not needed."""
        from smallgroup.data.own import open_images  # noqa: PLC0415

        train = self._splits()["train"]
        with self._named():
            return open_images(_SplitItems(train, self._column(train, "Image")), like.size, like.channels)

    def _is_saved(self) -> bool:
        try:
            return any((expanded(self.argument) / name).is_file() for name in SAVED)
        except (OSError, ValueError):  # a name that no file can have
            return False

    def _splits(self) -> "Mapping[str, Any]":
        import datasets  # noqa: PLC0415

        try:
            found = (
                datasets.load_from_disk(str(expanded(self.argument)))
                if self._is_saved()
                else datasets.load_dataset(self.argument)
            )
        except Exception as error:  # of the library: any
            raise DataError(f"{self.full_name} cannot be loaded: {reason(error)[:300]}") from error
        splits = dict(found) if isinstance(found, Mapping) else {"train": found}
        if "train" not in splits:
            have = ", ".join(shown(str(name)) for name in splits) or "none"
            raise DataError(f"{self.full_name} must have a split train, but it has {have}")
        return splits

    def _column(self, split: Any, kind: str) -> str:  # noqa: ANN401 -- of a library without types
        """Return the one column of a type."""
        found = [str(name) for name, feature in split.features.items() if type(feature).__name__ == kind]
        if len(found) != 1:
            have = ", ".join(shown(name) for name in found) or "none"
            raise DataError(f"{self.full_name} must have one column of type {kind}, but it has {have}")
        return found[0]

    def _read(self, parts: list[Any]) -> "OwnData":
        from smallgroup.data.own import OwnData  # noqa: PLC0415

        columns = [(self._column(part, "Image"), self._column(part, "ClassLabel")) for part in parts]
        train, *test = [_SplitItems(part, *names) for part, names in zip(parts, columns, strict=True)]
        with self._named():
            return OwnData(train, test=test[0] if test else None, classes=parts[0].features[columns[0][1]].names)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of what an error is."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.full_name}: {error}") from None


class _SplitItems:
    """The items of a split: an image, or an image and its label."""

    def __init__(self, split: Any, *columns: str) -> None:  # noqa: ANN401 -- of a library without types
        self.split, self.columns = split.select_columns(list(columns)).with_format(None), columns

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, place: int) -> Any:  # noqa: ANN401
        row = self.split[place]
        values = tuple(row[name] for name in self.columns)
        return values if len(values) > 1 else values[0]
