"""What each edge of the spaces robust-s1 to robust-s4 chooses from."""

from collections.abc import Mapping

from smallgroup.spaces.darts.names import EDGES, KINDS, OPERATIONS
from smallgroup.spaces.kinds import Kind

Choices = tuple[tuple[str, ...], ...]
"""By edge, in the order of the DARTS space."""

_MAX, _AVG, _SKIP = "max_pool_3x3", "avg_pool_3x3", "skip_connect"
_SEP3, _DIL3, _DIL5 = "sep_conv_3x3", "dil_conv_3x3", "dil_conv_5x5"
NOISE = "noise"

_S1_NORMAL: Choices = (
    (_SKIP, _DIL3),
    (_SKIP, _DIL5),
    (_SKIP, _DIL5),
    (_SKIP, _SEP3),
    (_SKIP, _DIL3),
    (_MAX, _SKIP),
    (_SKIP, _SEP3),
    (_SKIP, _SEP3),
    (_SKIP, _DIL3),
    (_SKIP, _SEP3),
    (_MAX, _SKIP),
    (_SKIP, _DIL3),
    (_DIL3, _DIL5),
    (_DIL3, _DIL5),
)
_S1_REDUCE: Choices = (
    (_MAX, _AVG),
    (_MAX, _DIL3),
    (_MAX, _AVG),
    (_MAX, _AVG),
    (_SKIP, _DIL5),
    (_MAX, _AVG),
    (_MAX, _SEP3),
    (_SKIP, _DIL3),
    (_SKIP, _DIL5),
    (_MAX, _AVG),
    (_MAX, _AVG),
    (_SKIP, _DIL5),
    (_SKIP, _DIL5),
    (_SKIP, _DIL5),
)
_ORDER = (*OPERATIONS, NOISE)
"""Of the architecture's columns: that of the DARTS space."""


def _kind(kind: str, choices: Choices) -> Kind:
    """Return a kind of cell with the columns that some edge needs."""
    operations = tuple(name for name in _ORDER if any(name in offered for offered in choices))
    return Kind(kind, EDGES, operations, KINDS[kind].title, choices)


def _kinds(normal: Choices, reduce: Choices) -> Mapping[str, Kind]:
    return {"normal": _kind("normal", normal), "reduce": _kind("reduce", reduce)}


def _same(*operations: str) -> Mapping[str, Kind]:
    """Return the same choices for every edge of both cells."""
    return _kinds((operations,) * len(EDGES), (operations,) * len(EDGES))


S1 = _kinds(_S1_NORMAL, _S1_REDUCE)
"""Two operations per edge, which differ from edge to edge: the strongest two of an earlier search of the paper."""
S2 = _same(_SKIP, _SEP3)
S3 = _same("none", _SKIP, _SEP3)
S4 = _same(NOISE, _SEP3)
"""Noise is never better than a convolution: a search that keeps it has failed."""
