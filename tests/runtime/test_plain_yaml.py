"""Scalars are those of YAML 1.2, and what is written reads back the same."""

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from smallgroup.runtime.plain_yaml import dumped, parsed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("no", "No", "off", "yes", "on", "y", "n", "NO", "=", "<<")),
        *(
            (text, text)
            for text in ("1:30", "1:30.5", "1_000", "0b11", "2001-01-01", "2001-99-99", "0o8", "-0x1", "1e")
        ),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *(("010", 10), ("-010", -10), ("0o10", 8), ("0x1F", 31), ("+7", 7)),
        *(("1e-3", 0.001), ("1E3", 1000.0), (".5", 0.5), ("1.", 1.0), ("-1.5e+2", -150.0), ("12e03", 12000.0)),
        *(("-.inf", -math.inf), ("+.INF", math.inf)),
    ],
)
def test_a_plain_scalar_is_what_yaml_1_2_says(text: str, value: object) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is type(value)
    assert parsed(f"'{text}'") == text


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(alphabet="0123456789.:_-+eExobno~yNOt<=# ", max_size=7),
    st.sampled_from(["no", "null", "1e-3", "0o17", "1:30", "2001-01-01", ".inf", "", "~", "010", "true", "<<"]),
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.text("abyn", min_size=1, max_size=3), st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3))))
def test_what_is_written_reads_back_the_same(values: dict[str, Any]) -> None:
    """Also in YAML 1.1, as other programs read it."""
    text = dumped(values)
    assert repr(parsed(text)) == repr(yaml.safe_load(text)) == repr(values)
