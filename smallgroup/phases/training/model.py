"""A trained network as two files: its weights, and what one has to know to use it."""

import json
import math
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smallgroup.data.errors import reason
from smallgroup.phases.training.place import ABOUT, WEIGHTS
from smallgroup.runtime.files import read_regular, write_whole
from smallgroup.runtime.tensor_files import read_tensors, tensor_bytes, tensors_of
from smallgroup.runtime.text import shown
from smallgroup.spaces import definition_of
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import from_plain, to_plain
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network

SCHEMA = 1
LARGEST = 10_000_000
"""Bytes of what is said about a model; ImageNet's thousand names of classes take a few thousand."""


@dataclass(frozen=True)
class TrainedModel:
    """A trained model: the cell, the network around it, and the images it is for."""

    genotype: Genotype
    design: NetworkDesign
    dataset: str
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Per channel, of values in 0..1: inputs are (pixels / 255 - mean) / std."""
    margin: float = 1.0
    """How much larger than the window the short side of an image is before its center is cut out."""

    def write(self, folder: Path, network: nn.Module) -> None:
        """Write the weights without the auxiliary head, and then their description."""
        content = tensor_bytes({name: tensor for name, tensor in network.state_dict().items() if _is_kept(name)})
        write_whole(folder / WEIGHTS, content)
        about = {
            "schema": SCHEMA,
            "sha256": sha256(content).hexdigest(),
            "space": self.genotype.space,
            "genotype": to_plain(self.genotype),
            "design": self.design.to_plain(),
            "dataset": self.dataset,
            "classes": list(self.classes),
            "mean": list(self.mean),
            "std": list(self.std),
            "margin": self.margin,
        }
        write_whole(folder / ABOUT, json.dumps(about, indent=2) + "\n")


def read_model(folder: Path) -> tuple[DerivedNetwork, TrainedModel]:
    """Read a network in eval mode, and its description. Both files are untrusted; invalid content is a ValueError."""
    model, digest = _read_about(folder / ABOUT)
    tensors = _read_weights(folder / WEIGHTS, digest)
    try:
        # Without memory at first: what a damaged file asks for may not fit into any.
        expected = build_network(model.genotype, model.design, device="meta").state_dict()
    except (ValueError, RuntimeError) as error:  # a RuntimeError: tensors larger than torch can count
        raise ValueError(f"{folder / ABOUT} must describe a network, but it does not: {shown(error)}") from None
    if tensors.keys() != expected.keys() or any(not _alike(tensors[name], t) for name, t in expected.items()):
        raise ValueError(f"{folder / WEIGHTS} must hold the weights of the network in {ABOUT}, but it holds others")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError(f"{folder / WEIGHTS} must hold finite weights, but some are not")
    network = build_network(model.genotype, model.design)
    network.load_state_dict(tensors)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval(), model


def _read_weights(path: Path, digest: str) -> dict[str, Tensor]:
    try:
        content = read_tensors(path)
        if sha256(content).hexdigest() != digest:
            raise ValueError(f"it is not the file that {ABOUT} was written for")
        return tensors_of(content)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must hold weights, but it cannot be read: {reason(error)}") from None


def _read_about(path: Path) -> tuple[TrainedModel, str]:
    """Read a model's description, and the checksum of its weights."""
    try:
        content = read_regular(path, LARGEST)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must describe a trained model, but it cannot be read: {reason(error)}") from None
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"{path} must describe a trained model in schema {SCHEMA}, but it does not")
    try:
        return _model(data), _text("sha256", data["sha256"])
    except KeyError as error:
        raise ValueError(f"{path} must describe a trained model, but {error} is missing") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe a trained model, but it does not: {shown(error)}") from None


def _model(data: dict[str, Any]) -> TrainedModel:
    genotype = from_plain(data["space"], data["genotype"])
    design = definition_of(genotype.space).network_design.from_plain(_object("design", data["design"]))
    model = TrainedModel(
        genotype,
        design,
        _text("dataset", data["dataset"]),
        tuple(_text("a class", name) for name in _list("classes", data["classes"])),
        tuple(_number("mean", value) for value in _list("mean", data["mean"])),
        tuple(_number("std", value, above=0) for value in _list("std", data["std"])),
        _number("margin", data["margin"], least=1),
    )
    if len(model.classes) != design.images.classes or {len(model.mean), len(model.std)} != {design.images.channels}:
        raise ValueError("it must name every class and channel of its network")
    return model


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, but got {type(value).__name__}")
    return value


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, but got {type(value).__name__}")
    return value


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list, but got {type(value).__name__}")
    return value


def _number(name: str, value: object, *, above: float = -math.inf, least: float = -math.inf) -> float:
    """Return a finite number within float32, which images are computed in."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, but got {type(value).__name__}")
    # float32 ends at 3.4e38.
    if not (abs(value) < 1e38 and value > above and value >= least):
        raise ValueError(f"{name} must be a moderate number, but got {shown(value)}")
    return float(value)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _is_kept(name: str) -> bool:
    return not name.startswith("auxiliary.")
