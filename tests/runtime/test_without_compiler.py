"""Optimizers that are built without torch's compiler."""

import subprocess
import sys
from inspect import unwrap

from torch.optim import SGD, Optimizer

SCRIPT = """
import sys, torch
from smallgroup.group.fused_sgd import FusedSGD
from smallgroup.runtime.without_compiler import compiler_left_out
weight = torch.ones(3, requires_grad=True)
with compiler_left_out():
    adam = torch.optim.Adam([weight])
weight.grad = torch.ones(3)
FusedSGD([weight], lr=0.1, momentum=0.9).step()
loaded = [name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules]
assert not loaded, loaded
torch.optim.Adam([weight])  # somebody else's: as torch does it
assert "torch._dynamo" in sys.modules
"""


def test_the_compiler_is_not_loaded() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_mark_is_taken_away_again() -> None:
    assert not hasattr(unwrap(Optimizer.add_param_group), "__dynamo_disable") or "torch._dynamo" in sys.modules
    assert SGD.add_param_group is Optimizer.add_param_group  # what is marked is what optimizers call
