"""A trained network as two files: its weights, and what one has to know to use it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from smallgroup.networks import DerivedNetwork, NetworkDesign, build_network
from smallgroup.runtime.files import write_whole
from smallgroup.spaces.genotypes import AnyGenotype, from_plain, space_of, to_plain

WEIGHTS, ABOUT = "model.safetensors", "model.json"
SCHEMA = 1
LARGEST = 10_000_000
"""Bytes of what is said about a model; ImageNet's thousand names of classes take a few thousand."""


@dataclass(frozen=True)
class TrainedModel:
    """What was trained: the cell, the network around it, and the images it is for."""

    genotype: AnyGenotype
    design: NetworkDesign
    dataset: str
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Per channel, of values in 0..1: inputs are (pixels / 255 - mean) / std."""
    margin: float = 1.0
    """How much larger than the window the short side of an image is before its centre is cut out."""

    def write(self, folder: Path, network: nn.Module) -> None:
        """The weights without the auxiliary head, and then what they are."""
        tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items() if _is_kept(name)}
        write_whole(folder / WEIGHTS, save(tensors))
        about = {
            "schema": SCHEMA,
            "space": space_of(self.genotype),
            "genotype": to_plain(self.genotype),
            "design": asdict(self.design),
            "dataset": self.dataset,
            "classes": list(self.classes),
            "mean": list(self.mean),
            "std": list(self.std),
            "margin": self.margin,
        }
        write_whole(folder / ABOUT, json.dumps(about, indent=2) + "\n")


def read_model(folder: Path) -> tuple[DerivedNetwork, TrainedModel]:
    """The network in eval mode, and what it is."""
    model = _read_about(folder / ABOUT)
    network = build_network(model.genotype, model.design)
    try:
        tensors = load((folder / WEIGHTS).read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} must hold weights, but it cannot be read: {error}") from None
    expected = network.state_dict()
    if tensors.keys() != expected.keys() or any(tensors[name].shape != t.shape for name, t in expected.items()):
        raise ValueError(f"{folder / WEIGHTS} must hold the weights of the network in {ABOUT}, but it holds others")
    network.load_state_dict(tensors)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval(), model


def _read_about(path: Path) -> TrainedModel:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        data: Any = json.loads(content) if len(content) <= LARGEST else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"{path} must describe a trained model in schema {SCHEMA}, but it does not")
    try:
        design = NetworkDesign(**data["design"])
        classes, mean, std = (_tuple(data[name]) for name in ("classes", "mean", "std"))
        model = TrainedModel(
            from_plain(data["space"], data["genotype"]),
            design,
            str(data["dataset"]),
            tuple(str(name) for name in classes),
            tuple(float(value) for value in mean),
            tuple(float(value) for value in std),
            float(data["margin"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} must describe a trained model, but parts of it are missing: {error}") from None
    if len(model.classes) != design.classes or {len(mean), len(std)} != {design.image_channels}:
        raise ValueError(f"{path} must name every class and channel of its network, but it does not")
    return model


def _tuple(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is needed, but got {type(value).__name__}")
    return value


def _is_kept(name: str) -> bool:
    return not name.startswith("auxiliary.")
