"""What holds for the whole suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from smallgroup import kernels
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training import TrainResult
from tests.phases.training.models import GENOTYPES, train

# The networks of the tests are tiny: on two threads they mostly wait for one another.
torch.set_num_threads(1)

LONGEST = (
    "recipes/test_full_size",
    "on_real_images",
    "search/test_base_methods",
    "test_stages",
    "test_export",
    "test_search_process",
    "test_kills",
    "test_training_job",
    "test_documents",
)
"""Files that take the longest: they come first, so that no process waits for another at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, all else in its order."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST))


@pytest.fixture
def plain_kernels() -> Iterator[None]:
    """Layer by layer, so that hooks on single layers see them."""
    with kernels.using("plain"):
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, TrainingData, TrainResult]]:
    """By space: the folder of a training, its data and its result; trained once, and not changed by tests."""
    found = {}
    for space, genotype in GENOTYPES.items():
        folder = tmp_path_factory.mktemp(space)
        found[space] = (folder, *train(folder, genotype))
    return found
