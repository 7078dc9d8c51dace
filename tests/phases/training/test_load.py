"""Models from their folders: sound ones to the digit, others with a sentence."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from smallgroup.data.training_data import TrainingData
from smallgroup.phases.evaluate import evaluate
from smallgroup.phases.training import TrainResult, read_model
from smallgroup.phases.training.load import load
from smallgroup.phases.training.place import find_model
from smallgroup.runtime import stream

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
SPACES = ("darts", "nas-bench-201")


@pytest.mark.parametrize("space", SPACES)
def test_a_reloaded_model_has_the_same_accuracy_to_the_digit(space: str, trained: Trained) -> None:
    folder, data, result = trained[space]
    network = load(str(folder))
    assert isinstance(network, nn.Module)
    assert not any(module.training for module in network.modules())
    images = data.dataset.test
    assert images is not None
    found = evaluate(network, images, data.dataset, torch.arange(len(images)))
    assert (found.error, found.error_top5) == (result.test_error, result.test_error_top5)
    assert found.confusion == result.confusion
    with torch.no_grad():
        next(network.parameters()).mul_(-1)
    assert evaluate(network, images, data.dataset, torch.arange(len(images))).error != found.error


def test_where_a_model_is_looked_for(trained: Trained, tmp_path: Path) -> None:
    assert find_model(trained["darts"][0]) == trained["darts"][0]
    shutil.copytree(trained["darts"][0], tmp_path / "training")
    assert find_model(str(tmp_path)) == tmp_path / "training"
    shutil.copytree(trained["nas-bench-201"][0], tmp_path, dirs_exist_ok=True)
    assert find_model(tmp_path) == tmp_path


@pytest.mark.parametrize("run", ["", "nowhere", "a\0b", "x" * 5000, "model.json"])
def test_what_is_no_run(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.json").mkdir()
    with pytest.raises(ValueError, match=r"a run must have a trained model, .* has none$") as caught:
        find_model(run)
    assert str(caught.value).isprintable()


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Path:
    for name in ("model.json", "model.safetensors"):
        shutil.copy(trained["nas-bench-201"][0] / name, tmp_path)
    return tmp_path


def sentence(folder: Path) -> str:
    """What is said about a model that cannot be read."""
    with pytest.raises(ValueError, match=" must ") as caught:
        read_model(folder)
    text = str(caught.value)
    assert type(caught.value) is ValueError
    assert text.startswith(str(folder))
    assert text.isprintable()
    assert len(text) < len(str(folder)) + 400
    return text


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "null", "[]", '"x"', "1", "[" * 100_000, '{"schema": 2}', '{"schema": true}', '{"schema": 1}',
        '{"schema": 1, "design": 1' + "0" * 5000 + "}", "\xff", " " * 10_000_001,
    ],
)  # fmt: skip
def test_descriptions_that_are_none(content: str, copied: Path) -> None:
    (copied / "model.json").write_text(content, encoding="latin-1")
    assert "model.json must describe a trained model" in sentence(copied)


def test_files_that_are_missing(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "moved")
    assert "model.safetensors must hold weights, but it cannot be read: no such file" in sentence(copied)
    (copied / "model.json").unlink()
    assert "model.json must describe a trained model, but it cannot be read: no such file" in sentence(copied)


HOSTILE: list[Any] = [
    None, True, -1, 0, 3, 1.5, 10**9, 10**30, 10**400, float("nan"), float("inf"), "x", "a\nb", [], [1], [[]], {},
    {"a": 1}, [float("nan")], [10**400], ["\ud800"] * 10, [0.0], [-1.0], "x" * 5000,
]  # fmt: skip


def test_hostile_descriptions(copied: Path) -> None:
    """Every value in turn replaced by every hostile one: a sentence, or the same network."""
    data = json.loads((copied / "model.json").read_text())
    images = torch.randn(2, 1, 8, 8, generator=stream("test"))
    expected = load(copied)(images)
    places = [(key,) for key in data] + [("design", key) for key in data["design"]]
    refused = dict.fromkeys(places, 0)
    for place in places:
        for value in HOSTILE:
            changed = json.loads(json.dumps(data))
            (changed if len(place) == 1 else changed[place[0]])[place[-1]] = value
            (copied / "model.json").write_text(json.dumps(changed))
            try:
                network, model = read_model(copied)
            except ValueError:
                sentence(copied)
                refused[place] += 1
                continue
            assert torch.equal(network(images), expected)
            assert len(model.classes) == 10
            assert all(0 < value < 1e38 for value in (*model.std, model.margin))
        del (changed if len(place) == 1 else changed[place[0]])[place[-1]]
        (copied / "model.json").write_text(json.dumps(changed))
        if len(place) == 1:
            assert f"{place[0]!r} is missing" in sentence(copied) or place == ("schema",)
    assert all(refused.values())


@pytest.mark.parametrize("key", ["channels", "cells_per_stage", "classes", "image_channels", "image_size"])
def test_a_network_too_large_for_any_memory(key: str, copied: Path) -> None:
    data = json.loads((copied / "model.json").read_text())
    for value in (99, 99_999, 10**12):
        data["design"][key] = value
        (copied / "model.json").write_text(json.dumps(data))
        if (key, value) == ("image_size", 99):
            read_model(copied)  # the same weights are for images of every size
        else:
            sentence(copied)


def seal(folder: Path) -> None:
    """As one who means to deceive would: the checksum is that of the weights."""
    data = json.loads((folder / "model.json").read_text())
    data["sha256"] = sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(data))


def test_a_flipped_bit_is_noticed(copied: Path) -> None:
    content = bytearray((copied / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (copied / "model.safetensors").write_bytes(content)
    assert "cannot be read: it is not the file that model.json was written for" in sentence(copied)


def test_a_cell_that_needs_other_weights(copied: Path, trained: Trained) -> None:
    shutil.copy(trained["darts"][0] / "model.json", copied)
    seal(copied)
    assert "must hold the weights of the network in model.json, but it holds others" in sentence(copied)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(10, 17), "it holds others"),
        (torch.zeros(10, 16, dtype=torch.float64), "it holds others"),
        (torch.zeros(10, 16, dtype=torch.int32), "it holds others"),
        (torch.full((10, 16), torch.nan), "must hold finite weights"),
        (torch.full((10, 16), torch.inf), "must hold finite weights"),
    ],
)
def test_weights_that_do_not_fit(value: torch.Tensor, message: str, copied: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    assert tensors["classifier.weight"].shape == (10, 16)
    save_file({**tensors, "classifier.weight": value}, copied / "model.safetensors")
    seal(copied)
    assert message in sentence(copied)
    save_file({**tensors, "more": value}, copied / "model.safetensors")
    seal(copied)
    assert "it holds others" in sentence(copied)


def test_damaged_weights(copied: Path) -> None:
    """Cut anywhere: a sentence. A byte changed in what describes them: a sentence, or all of them are read."""
    path = copied / "model.safetensors"
    whole = path.read_bytes()
    described = 8 + int.from_bytes(whole[:8], "little")
    places = torch.randint(0, len(whole), (30,), generator=stream("test", "cut")).tolist()
    for end in [0, 1, 7, 8, 9, described, len(whole) - 1, *places]:
        path.write_bytes(whole[:end])
        assert "must hold weights, but it cannot be read" in sentence(copied)
    refused = 0
    for step in range(200):
        generator = stream("test", "byte", step)
        place, value = (int(torch.randint(0, top, (), generator=generator)) for top in (described, 256))
        path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
        try:
            read_model(copied)
        except ValueError:
            sentence(copied)
            refused += 1
    assert refused > 100
