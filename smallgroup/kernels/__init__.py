"""How the networks of searches and trainings are computed: three paths to the same numbers.

plain    one torch layer after another, as the modules are written: the reference, and the only path with second
         derivatives and forward-mode differentiation.
torch    torch operators alone, but what operations share is computed once, and no gradient that is not needed.
native   kernels of our own in C++, compiled once per machine. CPU only.

The modules ask `backend_for(x)` for the functions that compute them, and take the plain way where there are none.
"""

from smallgroup.kernels.plans import Arrow, CellTerms
from smallgroup.kernels.selection import (
    available,
    backend_for,
    best,
    blocks_for,
    current,
    describe,
    in_words,
    using,
)
from smallgroup.kernels.terms import EPSILON, AnyTerm, Backend, Board, Convolution, Place, Term
from smallgroup.runtime.kernel_paths import AUTO, PATHS, KernelPath

__all__ = [
    "AUTO",
    "EPSILON",
    "PATHS",
    "AnyTerm",
    "Arrow",
    "Backend",
    "Board",
    "CellTerms",
    "Convolution",
    "KernelPath",
    "Place",
    "Term",
    "available",
    "backend_for",
    "best",
    "blocks_for",
    "current",
    "describe",
    "in_words",
    "using",
]
