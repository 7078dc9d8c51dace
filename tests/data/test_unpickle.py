"""A pickle is read, never run."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smallgroup.data import DataError
from smallgroup.data.unpickle import read_pickle
from tests.data.makers import cifar_content, write_pickle


@pytest.mark.parametrize("protocol", range(2, 6))
def test_every_binary_protocol_gives_what_pickle_gives(tmp_path: Path, protocol: int) -> None:
    content: dict[Any, Any] = {**cifar_content(300), "text": "ä", b"other": [b"x", (1, -2, 2**40), None, True]}
    found, raw = read_pickle(write_pickle(tmp_path / "file", content, protocol))
    assert raw == pickle.dumps(content, protocol)
    assert set(found) == {"data", "labels", "text", "other"}
    np.testing.assert_array_equal(found["data"], content[b"data"])
    assert found["labels"] == content[b"labels"]
    assert (found["text"], found["other"]) == ("ä", content[b"other"])


def test_order_of_elements_in_fortran_arrays(tmp_path: Path) -> None:
    data = np.asfortranarray(cifar_content(5)[b"data"])
    found, _ = read_pickle(write_pickle(tmp_path / "file", {b"data": data}))
    np.testing.assert_array_equal(found["data"], data)


def test_strings_of_python_2_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x80\x02}q\x00U\x06labelsq\x01]q\x02(K\x03M\x00\x01es.")
    assert read_pickle(tmp_path / "file")[0] == {"labels": [3, 256]}


class Payload:
    def __init__(self, target: Path, call: Callable[..., object]) -> None:
        self.target, self.call = target, call

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call, (f"open({str(self.target)!r}, 'w').close()",)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [exec, eval, __import__("os").system])
def test_code_is_refused_and_not_executed(tmp_path: Path, protocol: int, call: Callable[..., object]) -> None:
    target = tmp_path / "created"
    path = write_pickle(tmp_path / "batch", {b"data": Payload(target, call), b"labels": []}, protocol)
    with pytest.raises(DataError, match=r"batch is refused and nothing in it was executed: it asks for") as caught:
        read_pickle(path)
    assert not target.exists()
    assert "\n" not in str(caught.value)
    if call is exec:
        pickle.loads(path.read_bytes())
        assert target.exists()  # the payload is real


def test_arrays_of_objects_and_of_numbers_are_refused(tmp_path: Path) -> None:
    for data in (np.array([[1, None]], object), np.zeros((2, 3072)), np.zeros(3, "u2"), np.zeros(3, [("a", "u1")])):
        for protocol in (2, 5):
            with pytest.raises(DataError, match="other than bytes"):
                read_pickle(write_pickle(tmp_path / "file", {b"data": data}, protocol))


NESTED = b"\x80\x02}" + b"(K\x01K\x01t" + b"q\x00h\x00\x86" * 60 + b"K\x01s."
PROGRAMS = {
    "empty file": (b"", "damaged"),
    "text": (b"hello world", "damaged"),
    "no end": (pickle.dumps({b"a": 1}, 2)[:-1], "damaged|no end"),
    "cut in the middle": (pickle.dumps(cifar_content(9), 2)[:5000], "damaged"),
    "stack underflow": (b"\x80\x02s.", "damaged"),
    "mark missing": (b"\x80\x02}u.", "damaged"),
    "unknown memo": (b"\x80\x02h\x07.", "damaged"),
    "huge memo index": (b"\x80\x02}r\xff\xff\xff\xff.", ""),
    "a list": (pickle.dumps([1], 2), "must hold a dictionary, but it holds a list"),
    "unhashable key": (b"\x80\x02}]K\x01s.", "damaged"),
    "key that takes for ever to hash": (NESTED, "damaged"),
    "extension registry": (b"\x80\x02\x82\x01.", "refused"),
    "persistent id": (b"\x80\x02K\x01Q.", "refused"),
    "call of a number": (b"\x80\x02K\x01)R.", "damaged"),
    "state for a dictionary": (b"\x80\x02}}b.", "damaged"),
    "array of the wrong length": (
        pickle.dumps({b"data": np.zeros((2, 3), np.uint8)}, 2).replace(b"K\x02K\x03", b"K\x7fK\x7f"),
        "damaged",
    ),
    "name with line ends": (b"\x80\x04\x8c\x02o\n\x8c\x02s\n\x93.", r"'o\\ns\\n'|o\\n\.s\\n"),
    "longer than the file": (b"\x80\x02T" + struct.pack("<i", 2**31 - 1) + b"abc.", "damaged"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_and_hostile_files_get_one_sentence(tmp_path: Path, name: str) -> None:
    program, expected = PROGRAMS[name]
    (tmp_path / "data_batch_1").write_bytes(program)
    if not expected:
        assert read_pickle(tmp_path / "data_batch_1")[0] == {}
        return
    with pytest.raises(DataError, match=expected) as caught:
        read_pickle(tmp_path / "data_batch_1")
    assert "data_batch_1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none_or_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="missing must be a file, but does not exist"):
        read_pickle(tmp_path / "missing")
    with pytest.raises(DataError, match="must be a file, but is not"):
        read_pickle(tmp_path)
    path = write_pickle(tmp_path / "large", {b"a": b"x" * 1000})
    monkeypatch.setattr("smallgroup.data.unpickle.LARGEST", 100)
    with pytest.raises(DataError, match="large must have at most 100 bytes"):
        read_pickle(path)


def test_programs_that_only_fill_the_memory_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"\x80\x02" + b"]" * 1100 + b".")
    monkeypatch.setattr("smallgroup.data.unpickle.LONGEST_PROGRAM", 1000)
    with pytest.raises(DataError, match=r"refused .* it takes more than 1,000 steps"):
        read_pickle(tmp_path / "file")
