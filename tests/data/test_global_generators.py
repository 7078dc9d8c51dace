"""Nothing in this room touches a global generator, whatever is opened, split, drawn or decoded."""

import random
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from smallgroup.data import DataConfig, examine, open_search_data, ordered
from tests.data.makers import cifar10_folder, cifar100_folder, class_folders


def states() -> tuple[object, ...]:
    return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002


def test_global_generators_are_left_alone(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    cifar100_folder(tmp_path)
    class_folders(tmp_path / "pictures", 12)
    pictures = f"folder:{tmp_path / 'pictures'}"
    before = states()
    jobs = [("digits", "split", 0), ("cifar10", "cifar100", 0), (pictures, "split", 0), (pictures, "cifar10", 2)]
    for dataset, unlabeled, workers in jobs:
        settings = {"cutout": 4, "color_jitter": True, "smallest_area": 0.3}
        config = DataConfig.model_validate(
            {
                "dataset": dataset,
                "unlabeled": unlabeled,
                "workers": workers,
                "data_root": tmp_path,
                "augmentation": settings,
            }
        )
        data = open_search_data(config, seed=0)
        for stream in (data.train(4, 0), data.validation(4, 0), data.without_labels(4, 0)):
            batches = stream.batches()
            assert len(list(islice(batches, 3))) == 3
            batches.close()
        assert data.dataset.test is not None
        mean, std = data.dataset.mean, data.dataset.std
        indices = torch.arange(len(data.dataset.test))
        list(ordered(data.dataset.test, indices, batch_size=4, mean=mean, std=std, workers=workers))
    examine(tmp_path, ("digits", "cifar10", pictures))
    assert states() == before
    random.random()
    assert states() != before
