"""Small data made for a test: image folders and CIFAR folders in the official layout."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from smallgroup.data import TensorImages
from smallgroup.runtime import stream

REAL = os.environ.get("SMALLGROUP_DATA")
needs_real_data = pytest.mark.skipif(not REAL, reason="SMALLGROUP_DATA is not set")


def noise(*shape: int, key: int | str = 0) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=stream("test", key))


def tensor_images(count: int, channels: int = 3, size: int = 8, classes: int = 3) -> TensorImages:
    """Images whose first pixel tells which one it is (up to 256)."""
    pixels = noise(count, channels, size, size)
    pixels[:, 0, 0, 0] = torch.arange(count) % 256
    return TensorImages(pixels, torch.arange(count) % classes)


def picture(path: Path, width: int = 20, height: int = 16, key: int | str = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = noise(height // 2, width // 2, 3, key=key).numpy().repeat(2, 0).repeat(2, 1)
    Image.fromarray(pixels).save(path)
    return path


def class_folders(root: Path, per_class: int = 6, classes: tuple[str, ...] = ("ants", "bees", "cats")) -> Path:
    for label, name in enumerate(classes):
        for number in range(per_class):
            suffix = ("png", "JPG")[number % 2]
            picture(root / name / f"{number}.{suffix}", 20 + number, 16 + 2 * label, f"{name}{number}")
    return root


def cifar_content(count: int, classes: int = 10, labels: str = "labels", key: int | str = 0) -> dict[bytes, Any]:
    data = noise(count, 3072, key=key).numpy()
    return {b"data": data, labels.encode(): [number % classes for number in range(count)]}


def write_pickle(path: Path, content: object, protocol: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def cifar10_folder(root: Path, per_file: int = 40) -> Path:
    folder = root / "cifar-10-batches-py"
    for number in range(1, 6):
        write_pickle(folder / f"data_batch_{number}", cifar_content(per_file, key=number))
    write_pickle(folder / "test_batch", cifar_content(per_file, key="test"))
    write_pickle(folder / "batches.meta", {b"label_names": [b"name %d" % number for number in range(10)]})
    return folder


def cifar100_folder(root: Path, count: int = 200) -> Path:
    folder = root / "cifar-100-python"
    for name in ("train", "test"):
        content = cifar_content(count, 100, "fine_labels", name)
        write_pickle(folder / name, {**content, b"coarse_labels": [0] * count})
    write_pickle(folder / "meta", {b"fine_label_names": [b"fine %d" % number for number in range(100)]})
    return folder


def array(image: Image.Image) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    return np.asarray(image)
