"""Optimizers built without torch's compiler: its import takes as long as everything else that a search is built of.

Adam imports it in its first step, which in a search comes after the warm-up of the architecture.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torch.optim import Optimizer

_MARK = "__dynamo_disable"
"""Where `torch._compile` keeps what stands for a function under the compiler; without it, it imports the compiler."""


@contextmanager
def compiler_left_out() -> Iterator[None]:
    """Build optimizers in this block as they are, unless somebody has loaded the compiler.

    A torch that keeps this in another way imports its compiler as before.
    """
    function = getattr(Optimizer.add_param_group, "__wrapped__", None)
    if function is None or "torch._dynamo" in sys.modules or hasattr(function, _MARK):
        yield
        return
    setattr(function, _MARK, function)
    try:
        yield
    finally:
        delattr(function, _MARK)
