"""Models are trained once for all tests of this folder, and not changed by them."""

from pathlib import Path

import pytest

from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training import TrainResult
from tests.phases.training.models import GENOTYPES, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, TrainingData, TrainResult]]:
    """By space: the folder of a training, its data and its result."""
    found = {}
    for space, genotype in GENOTYPES.items():
        folder = tmp_path_factory.mktemp(space)
        found[space] = (folder, *train(folder, genotype))
    return found
