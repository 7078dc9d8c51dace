"""Texts inside of exported models: names and metadata of ONNX, documents of pt2."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

_DOCUMENTS = (".json", "version", "format", "byteorder")
"""How the names of texts in a pt2 file end; the others are weights."""


def texts_of_onnx(path: Path) -> Iterator[str]:
    """All that a viewer of the file would show: whoever is named or has notes, at any depth, but no weights."""
    onnx = importlib.import_module("onnx")
    yield from _texts(onnx.load(path))


def _texts(message: Any) -> Iterator[str]:
    for _, value in message.ListFields():
        single = isinstance(value, str | bytes | int | float) or hasattr(value, "ListFields")
        for one in [value] if single else value:
            if isinstance(one, str):
                yield one
            elif hasattr(one, "ListFields"):
                yield from _texts(one)


def texts_of_pt2(path: Path) -> Iterator[str]:
    """Its documents, and the names of all that is in it."""
    with ZipFile(path) as archive:
        for name in archive.namelist():
            yield name
            if name.endswith(_DOCUMENTS):
                yield archive.read(name).decode()
