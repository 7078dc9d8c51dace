"""The small form of `python -m tests.tools.fuzz`, and proof that it would notice."""

import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("hypothesis", reason="hypothesis is not installed: hostile input was not tried")

from hypothesis import strategies as st

from tests.tools.fuzz import READERS, Reader, fuzz

INPUTS = 50


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_hostile_input_is_read_or_refused(reader: Reader) -> None:
    found = fuzz(reader, INPUTS if reader.share > 2 else 10, number=1)
    assert found.defects == []
    assert found.tried >= 10
    assert found.accepted
    if reader.refuses:
        assert found.refused


def read_unsafely(text: str, _: Path) -> object:
    return yaml.load(text, yaml.UnsafeLoader)


CONTROLS: dict[str, tuple[Any, str]] = {
    "another error": (lambda *_: dict[str, int]()["a"], "KeyError"),
    "a long message": (lambda *_: _raise("x" * 3_000), "3,000 characters"),
    "code of a text": (lambda *_: eval("1 + 1"), "it did exec"),
    "a command": (lambda *_: os.system("exit 0"), "it did os.system"),
    "a process": (lambda *_: subprocess.run([sys.executable, "-V"], check=True, capture_output=True), "Popen"),
    "much memory": (lambda *_: fill(500), "MB"),
}


def fill(megabytes: int) -> None:
    """Memory from the system: what the process has kept from before would not count."""
    with mmap.mmap(-1, megabytes * 2**20) as memory:
        for _ in range(megabytes):
            memory.write(b"x" * 2**20)


def _raise(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_reader_that_does_wrong_is_noticed(name: str) -> None:
    """The negative controls."""
    read, said = CONTROLS[name]
    found = fuzz(Reader("wrong", st.integers(), read, []), 2)
    assert any(said in defect for defect in found.defects), found
