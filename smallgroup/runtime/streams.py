"""Randomness is a function, not a state: every random number comes from a generator seeded by what it is for.

The key says it, for instance (seed, learner, purpose, epoch, step). Whoever knows the key can draw the same
numbers again: a probe of a finite difference, a resumed run, another process. The global generators are not used.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Phase = Literal["v", "label", "w", "w_unlabeled", "val"]
"""Which pass of an iteration is computed: what is random in a learner is drawn once per phase and step."""


def seed_of(*key: int | str | None) -> int:
    """Return a 63-bit seed; keys that differ anywhere give unrelated seeds."""
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def stream(*key: int | str | None, device: "torch.device | str" = "cpu") -> "torch.Generator":
    """Return the private generator of a purpose, always at its beginning."""
    import torch  # noqa: PLC0415 -- a config is checked without it

    return torch.Generator(device).manual_seed(seed_of(*key))
