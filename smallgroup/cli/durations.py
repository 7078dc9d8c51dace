"""Lengths of time, as people write them."""

import re

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def seconds_of(text: str) -> float:
    """Seconds of 30m, 1h30m, 2.5h or 90s."""
    match = _PATTERN.fullmatch(text.strip().lower())
    parts = [] if match is None else [(float(n), unit) for n, unit in zip(match.groups(), "hms", strict=True) if n]
    total = sum(number * _UNITS[unit] for number, unit in parts)
    if not 0 < total < 1e9:
        raise ValueError(f"a length of time must be like 30m, 1h30m or 90s, but got {text[:40]!r}")
    return total


def written(seconds: float) -> str:
    """A length of time to read."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 100 * 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds / 86400:.1f} days"
