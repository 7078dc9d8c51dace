"""Threads are as many as were asked for."""

import ctypes
import os

import pytest
import torch

from smallgroup.runtime.environment import threads


def test_openmp_starts_as_many_threads_as_torch_asks_for() -> None:
    """With OMP_DYNAMIC=true it starts fewer on a busy machine, and oneDNN waits for the others forever."""
    openmp = ctypes.CDLL(None)
    if not hasattr(openmp, "omp_set_dynamic"):
        pytest.skip("this torch has no OpenMP")
    openmp.omp_set_dynamic(1)  # as if torch had been loaded with OMP_DYNAMIC=true, before smallgroup
    with threads(2):
        assert openmp.omp_get_dynamic() == 0
        images = torch.randn(8, 16, 16, 16, generator=torch.Generator().manual_seed(0))
        assert torch.nn.functional.conv2d(images, images.new_ones(16, 16, 1, 1)).isfinite().all()


def test_torch_is_loaded_without_dynamic_teams() -> None:
    """Also in the processes that this one starts."""
    assert os.environ["OMP_DYNAMIC"] == "false"
