"""Lengths of time, as people write them."""

import re

from smallgroup.runtime.durations import written

__all__ = ["seconds_of", "written"]

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as 30m, 1h30m, 2.5h or 90s."""
    match = _PATTERN.fullmatch(text.strip().lower())
    parts = [] if match is None else [(float(n), unit) for n, unit in zip(match.groups(), "hms", strict=True) if n]
    total = sum(number * _UNITS[unit] for number, unit in parts)
    if not 0 < total < 1e9:
        raise ValueError(f"a length of time must be like 30m, 1h30m or 90s, but got {text[:40]!r}")
    return total
