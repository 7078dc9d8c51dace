"""The canary sees other rounding, and nothing else."""

import json
import os
import platform
import subprocess
import sys

import pytest
import torch

from smallgroup import kernels
from smallgroup.runtime.environment import threads
from smallgroup.spaces.canary import canary

CHILD = """
import json
from smallgroup import kernels
from smallgroup.runtime.environment import threads
from smallgroup.spaces.canary import canary
with threads(1), kernels.using("plain"):
    print(json.dumps(canary()))
"""


@pytest.mark.parametrize("path", kernels.available())
def test_it_repeats_and_leaves_the_global_generator_alone(path: str) -> None:
    before = torch.random.get_rng_state()
    with threads(1), kernels.using(path):
        assert canary() == canary()
    assert torch.equal(before, torch.random.get_rng_state())


def test_every_path_rounds_in_its_own_way() -> None:
    found = []
    for path in kernels.available():
        with threads(1), kernels.using(path):
            found.append(canary()["mixed operations"])
    assert len(set(found)) == len(found)


def test_other_ways_to_compute_are_parts_of_their_own() -> None:
    with threads(1), kernels.using("torch"):
        own, more = canary(), canary("plain", "bfloat16")
        with torch.no_grad():
            assert canary() == own
    assert len(more) == 3 * len(own)
    assert own.items() <= more.items()
    assert more["depthwise convolution (plain)"] != own["depthwise convolution"]
    assert more["stem (bfloat16)"] != own["stem"]


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not torch._C.has_mkl or not torch._C._has_mkldnn,
    reason="the variables are those of oneDNN and MKL on x86",
)
def test_variables_that_choose_other_routines_are_seen() -> None:
    """Both at once: each changes a part that the other leaves alone."""
    with threads(1), kernels.using("plain"):
        here = canary()
    changed = {**os.environ, "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=changed, capture_output=True, text=True, check=True)
    there = json.loads(done.stdout)
    assert there["stem"] != here["stem"]
    assert there["classifier"] != here["classifier"]
    assert there["pooling"] == here["pooling"]  # by torch itself
