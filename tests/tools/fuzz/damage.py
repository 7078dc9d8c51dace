"""Ways to damage what is sound, and a list of what is hostile."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

HOSTILE: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"[" * 5_000,
    b'{"a":' * 5_000,
    b"(" * 5_000,
    b"9" * 5_000,
    b"1e999",
    b"-1e-999",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b'"\\ud800"',
    b"__import__('os').system('exit 3')",
    b"!!python/object/apply:os.system ['exit 3']",
    b"!!python/name:os.system",
    b"!!timestamp x",
    b"!!bool x",
    b"!!int x",
    b"!!float x",
    b"!!binary x",
    b"!!null x",
    b"2001-99-99",
    b"1:2:3:4:5:6:7",
    b"0x",
    b"&a [*a, *a]",
    b"&a [1]\n<<: *a",
    b"<<: [1]",
    b"<<: {a: 1}",
    b"? [1]\n: 2",
    b"a: 1\na: 2",
    b"%YAML 9.9\n---\n",
    b"--- 1\n--- 2\n",
    b"\t- a",
    b"../../../../etc/passwd",
    b"/dev/zero",
    b"\x1b[31m",
    "\u202e\u0000\ud7ff".encode(),
)
numbers = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53, 2**63, 2**64, -(2**63), 10**19, 10**400]),
    st.floats(),
    st.sampled_from([1e30, 1e-30, 1e300, float("inf"), float("nan"), -0.0]),
)
texts = st.one_of(st.text(max_size=20), st.sampled_from([one.decode("latin-1") for one in HOSTILE]))
values: SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
"""Whatever JSON can hold."""


@st.composite
def damaged_document(draw: DrawFn, sound: Sequence[Any]) -> Any:
    """A sound value of JSON in which some part is replaced, removed, doubled or renamed."""
    document = json.loads(json.dumps(draw(st.sampled_from(sound))))
    for _ in range(draw(st.integers(0, 3))):
        document = _changed(draw, document)
    return document


def _changed(draw: DrawFn, value: Any) -> Any:
    """Go down at random and change what is there."""
    if not isinstance(value, dict | list) or not value or not draw(st.integers(0, 4)):
        return draw(values)
    what = draw(st.integers(0, 9))
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        here = value[place]
        changed = [[], [here] * 3][what] if what < 2 else [_changed(draw, here)]
        return [*value[:place], *changed, *value[place + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    if what == 0:
        return {name: inner for name, inner in value.items() if name != key}
    return {**value, draw(texts): draw(values)} if what == 1 else {**value, key: _changed(draw, value[key])}


@st.composite
def damaged_bytes(draw: DrawFn, sound: Sequence[bytes]) -> bytes:
    """Sound bytes in which a few are flipped, cut, doubled, or something hostile is put in between."""
    content = draw(st.sampled_from(sound))
    for _ in range(draw(st.integers(0, 4))):
        low = draw(st.integers(0, len(content)))
        high = min(len(content), low + draw(st.integers(0, 40)))
        what = draw(st.integers(0, 5))
        if what == 0:
            content = content[:low]
        elif what == 1:
            content = content[:low] + content[high:]
        elif what == 2:
            content = content[:high] + content[low:high] * draw(st.integers(1, 8)) + content[high:]
        elif what == 3:
            content = content[:low] + draw(st.sampled_from(HOSTILE)) + content[high:]
        elif what == 4:
            content = content[:low] + draw(st.binary(max_size=12)) + content[high:]
        elif low < len(content):
            content = content[:low] + bytes([content[low] ^ (1 << draw(st.integers(0, 7)))]) + content[low + 1 :]
    return content


def any_bytes(sound: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Mostly damaged ones; also hostile ones and noise."""
    return st.one_of(
        damaged_bytes(sound), damaged_bytes(sound), damaged_bytes(sound), st.sampled_from(HOSTILE), st.binary()
    )


def any_text(sound: Sequence[str]) -> SearchStrategy[str]:
    """The same as text."""
    damaged = damaged_bytes([one.encode() for one in sound]).map(lambda content: content.decode("latin-1"))
    return st.one_of(damaged, damaged, damaged, texts)


def any_document(sound: Sequence[Any]) -> SearchStrategy[Any]:
    """The same as a value of JSON."""
    return st.one_of(damaged_document(sound), damaged_document(sound), damaged_document(sound), values)
