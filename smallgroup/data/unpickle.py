"""Pickles of plain values and byte arrays, read without running them.

A pickle is a program. Here it is only tokenized by the standard library (`pickletools`) and then followed by an
interpreter that knows numbers, texts, lists, tuples, dictionaries and one way to make an array out of bytes. Nothing is
imported and no foreign function is called, so there is nothing a malicious file could reach.
"""

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallgroup.data.errors import DataError, reason
from smallgroup.runtime.text import shown

LARGEST = 256 * 2**20
"""Bytes of the largest file that is read: the largest official one, of CIFAR-100, has 155 million."""
LONGEST_PROGRAM = 1_000_000
"""Steps of the longest one: the official files take some 200,000, and a step of one byte can ask for 64 of memory."""

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1"}
_TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
_PY2_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_BYTES = {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_PLAIN = _NUMBERS | _TEXTS | _PY2_STRINGS | _BYTES | _EMPTY.keys() | _CONSTANTS.keys()
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = {"PROTO", "FRAME"}
_KNOWN = {"_codecs encode", "__builtin__ bytes"}
for _module in (
    "numpy",
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "numpy._core.numeric",
    "numpy.core.numeric",
):
    _KNOWN |= {f"{_module} {_name}" for _name in ("_reconstruct", "ndarray", "dtype", "_frombuffer")}


class _Name(NamedTuple):
    """A function or class the file speaks of; never looked up, only recognized."""

    text: str


class _ByteType:
    """A type of array elements; only bytes are known."""


class _Array:
    """An array under construction: its content arrives after it."""

    value: NDArray[np.uint8] | None = None


def read_pickle(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the dictionary in a file, and the file's bytes; keys and texts of Python 2 become `str` and `bytes`."""
    try:
        if not path.is_file():
            raise DataError(f"{shown(path)} must be a file, but {'is not' if path.exists() else 'does not exist'}")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read: {reason(error)}") from None
    if len(content) > LARGEST:
        raise DataError(f"{shown(path)} must have at most {LARGEST:,} bytes to be a CIFAR file, but it has more")
    try:
        value = _Machine().run(content)
    except DataError as error:
        raise DataError(f"{shown(path)} is refused and nothing in it was executed: {error}") from None
    except Exception as error:
        # Whatever a damaged program makes of the interpreter (stack empty, wrong types, ...) means the same to a user.
        raise DataError(f"{shown(path)} is damaged or no pickle of arrays ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise DataError(f"{shown(path)} must hold a dictionary, but it holds a {type(value).__name__}")
    return {_key_text(key): item.value if isinstance(item, _Array) else item for key, item in value.items()}, content


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:  # noqa: ANN401
        for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
            if count > LONGEST_PROGRAM:
                raise DataError(f"it takes more than {LONGEST_PROGRAM:,} steps to build")
            if opcode.name == "STOP":
                return self.stack.pop()
            self.follow(opcode.name, argument)
        raise DataError("it ends without a STOP instruction")

    def follow(self, name: str, argument: Any) -> None:  # noqa: ANN401, PLR0912
        stack = self.stack
        if name in _PLAIN:
            stack.append(_plain(name, argument))
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("TUPLE", "LIST"):
            stack.append({"TUPLE": tuple, "LIST": list}[name](self.pop_to_mark()))
        elif name == "DICT":
            items = self.pop_to_mark()
            stack.append({})
            self.set_items(items)
        elif name in ("APPEND", "APPENDS"):
            items = self.pop_to_mark() if name == "APPENDS" else [stack.pop()]
            _expect(stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self.pop_to_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self.set_items(items)
        elif name == "GLOBAL":
            stack.append(_known(argument))
        elif name == "STACK_GLOBAL":
            attribute, module = _expect(stack.pop(), str), _expect(stack.pop(), str)
            stack.append(_known(f"{module} {attribute}"))
        elif name == "REDUCE":
            arguments = _expect(stack.pop(), tuple)
            stack.append(_made(_expect(stack.pop(), _Name).text.split()[-1], arguments))
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], _Array):
                _, shape, kind, fortran, data = state
                _expect(kind, _ByteType)
                stack[-1].value = _array(data, shape, "F" if fortran else "C")
            else:
                _expect(stack[-1], _ByteType)
        elif name not in _IGNORED:
            raise DataError(f"it asks for {name}, and only arrays, lists, dictionaries, texts and numbers are read")

    def pop_to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def set_items(self, items: list[Any]) -> None:
        target = _expect(self.stack[-1], dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Only plain keys: hashing a tuple of tuples of tuples can take for ever.
            target[_expect(key, (bytes, str, int))] = value


def _plain(name: str, argument: Any) -> Any:  # noqa: ANN401
    if name in _PY2_STRINGS:
        return argument.encode("latin-1")
    if name in _BYTES:
        return bytes(argument)
    if name in _EMPTY:
        return _EMPTY[name]()
    return _CONSTANTS.get(name, argument)


def _known(name: str) -> _Name:
    if name not in _KNOWN:
        raise DataError(f"it asks for the Python name '{shown(name.replace(' ', '.'))}', and only arrays are built")
    return _Name(name)


def _made(name: str, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    if name == "_reconstruct":
        return _Array()
    if name == "dtype":
        if arguments[0] not in (b"u1", "u1", b"|u1", "|u1"):
            raise DataError("it holds an array of something other than bytes (uint8)")
        return _ByteType()
    if name == "_frombuffer":
        data, kind, shape, order = arguments
        _expect(kind, _ByteType)
        array = _Array()
        array.value = _array(data, shape, _expect(order, str))
        return array
    if name == "bytes" and not arguments:
        return b""
    if name == "encode" and arguments[1:] == ("latin1",):
        return _expect(arguments[0], str).encode("latin-1")
    raise DataError(f"it calls {shown(name)} in a way that only arrays need not")


def _array(data: object, shape: object, order: str) -> NDArray[np.uint8]:
    sizes = tuple(_expect(size, int) for size in _expect(shape, tuple))
    if len(sizes) > 4 or min(sizes, default=0) < 0:
        raise DataError("it holds an array of an impossible shape")
    flat = np.frombuffer(_expect(data, bytes), np.uint8)
    return flat.reshape(sizes, order="F" if order == "F" else "C")


def _expect(value: Any, kind: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, kind):
        raise TypeError
    return value


def _key_text(key: bytes | str | int) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)
