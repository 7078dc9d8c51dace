import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smallgroup.data import DataError, TensorImages, open_dataset
from smallgroup.data.cifar import CIFAR10, CIFAR100, open_cifar
from tests.data.makers import (
    REAL,
    cifar10_folder,
    cifar100_folder,
    cifar_content,
    needs_real_data,
    write_pickle,
)


def test_images_lie_in_file_order_as_channels_rows_columns(tmp_path: Path) -> None:
    cifar10_folder(tmp_path)
    data = open_dataset("cifar10", tmp_path)
    expected = np.concatenate([cifar_content(40, key=number)[b"data"] for number in range(1, 6)])
    fetched = data.train.fetch(torch.arange(200))
    assert fetched.dtype == torch.uint8
    np.testing.assert_array_equal(fetched.numpy(), expected.reshape(-1, 3, 32, 32))
    assert data.labels().tolist() == [number % 40 % 10 for number in range(200)]
    assert data.classes[3] == "name 3"
    assert (data.channels, data.size, data.test and len(data.test)) == (3, 32, 40)


def test_cifar100_has_its_fine_labels(tmp_path: Path) -> None:
    cifar100_folder(tmp_path)
    data = open_dataset("cifar100", tmp_path)
    assert len(data.classes) == 100
    assert data.labels().tolist() == [number % 100 for number in range(200)]
    assert data.notes[0] == "a subset of CIFAR-100: 200 of 50,000 training images"


def test_official_checksums_decide_whether_files_are_the_official_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cifar10_folder(tmp_path)
    monkeypatch.setattr("smallgroup.data.cifar.OFFICIAL_TRAIN", 200)
    monkeypatch.setattr("smallgroup.data.cifar.OFFICIAL_TEST", 40)
    sums = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    here = replace(CIFAR10, train={name: sums[name] for name in CIFAR10.train}, test={"test_batch": sums["test_batch"]})
    assert open_cifar(here, tmp_path / "cifar-10-batches-py").notes == ()
    content = cifar_content(40, key=3)
    content[b"data"] = content[b"data"] ^ 1
    write_pickle(folder / "data_batch_3", content)
    assert open_cifar(here, tmp_path / "cifar-10-batches-py").notes == (
        "not the official files of CIFAR-10: the checksum of data_batch_3 differs",
    )


def test_what_is_missing_is_noted_or_refused(tmp_path: Path) -> None:
    folder = cifar10_folder(tmp_path)
    for name in ("test_batch", "data_batch_2", "batches.meta"):
        (folder / name).unlink()
    data = open_dataset("cifar10", tmp_path)
    assert data.test is None
    assert data.classes[7] == "class 7"
    assert data.notes == (
        "a subset of CIFAR-10: 160 of 50,000 training images",
        "CIFAR-10 has no test images here: test_batch is missing",
    )
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"must hold data_batch_1 or data_batch_2 .* holds none"):
        open_dataset("cifar10", tmp_path)
    with pytest.raises(DataError, match=r"CIFAR-100.* must be a folder, but .*cifar-100-python does not exist.*_DATA"):
        open_dataset("cifar100", tmp_path / "nowhere")


BAD: dict[str, tuple[dict[bytes, Any], str]] = {
    "label too large": ({b"labels": [0] * 39 + [10]}, "from 0 to 9, but image 39 has 10"),
    "label below zero": ({b"labels": [-1] + [0] * 39}, "from 0 to 9, but image 0 has -1"),
    "label no number": ({b"labels": ["a"] * 40}, "but image 0 has one of type str"),
    "label true": ({b"labels": [True] * 40}, "but image 0 has one of type bool"),
    "label huge": ({b"labels": [10**100] * 40}, "but image 0 has one of over 18 digits"),
    "too few labels": ({b"labels": [0] * 39}, "one label for each of 40 images, but it has 39"),
    "no labels": ({b"labels": None}, "one label for each of 40 images, but it has none"),
    "no data": ({b"data": None}, "N x 3072 bytes with N > 0, but it is of type NoneType"),
    "wrong width": ({b"data": np.zeros((40, 3071), np.uint8)}, "but it is 40x3071"),
    "no images": ({b"data": np.zeros((0, 3072), np.uint8), b"labels": []}, "but it is 0x3072"),
    "wrong dimensions": ({b"data": np.zeros((40, 3, 1024), np.uint8)}, "but it is 40x3x1024"),
}


@pytest.mark.parametrize("name", BAD)
def test_unsound_content_gets_a_sentence_that_names_the_file(tmp_path: Path, name: str) -> None:
    change, expected = BAD[name]
    folder = cifar10_folder(tmp_path)
    write_pickle(folder / "data_batch_4", {**cifar_content(40), **change})
    with pytest.raises(DataError, match=expected) as caught:
        open_dataset("cifar10", tmp_path)
    assert "data_batch_4" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [[b"a"] * 9, None, [3] * 10])
def test_class_names_must_be_there(tmp_path: Path, names: object) -> None:
    folder = cifar10_folder(tmp_path)
    write_pickle(folder / "batches.meta", {b"label_names": names})
    with pytest.raises(DataError, match=r"batches.meta must name 10 classes"):
        open_dataset("cifar10", tmp_path)


@needs_real_data
@pytest.mark.parametrize("layout", [CIFAR10, CIFAR100], ids=lambda layout: layout.name)
def test_real_files_are_read(layout: Any) -> None:
    assert REAL is not None
    data = open_dataset(layout.name, Path(REAL))
    assert isinstance(data.train, TensorImages)
    assert data.train.pixels.shape == (len(data.train), 3, 32, 32)
    assert data.train.pixels.dtype == torch.uint8
    counts = torch.bincount(data.labels(), minlength=layout.classes)
    assert counts.min() > 0.5 * counts.float().mean()
    if len(data.train) < 50_000:
        assert data.notes[0] == f"a subset of {layout.title}: {len(data.train):,} of 50,000 training images"
    # The published statistics are those of these images (a part of them comes close).
    mean = data.train.pixels.double().mean((0, 2, 3)) / 255
    std = data.train.pixels.double().div(255).permute(1, 0, 2, 3).flatten(1).std(1)
    torch.testing.assert_close(mean, torch.tensor(data.mean).double(), atol=0.01, rtol=0)
    torch.testing.assert_close(std, torch.tensor(data.std).double(), atol=0.02, rtol=0)
    assert "apple" in data.classes or "airplane" in data.classes
