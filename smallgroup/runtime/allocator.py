"""Memory that is used again and again stays with the process."""

import ctypes
import sys
from functools import cache

_TRIM, _MAP = -1, -3
"""The names of glibc for: how much free memory is kept, and from which size on memory is asked of the system."""
_KEPT, _MAPPED = 2**31 - 1, 2**30


@cache
def keep_memory() -> bool:
    """Do not give memory back between the passes of a step: fetching it anew takes a fifth of the time of a search.

    Only on Linux with glibc, where it can be said; whether that was so.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(tell(_TRIM, _KEPT)) and bool(tell(_MAP, _MAPPED))
