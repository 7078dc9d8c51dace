"""Latencies of networks that were measured on this machine, and the file of a run that keeps them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from smallgroup.runtime.files import read_regular
from smallgroup.runtime.text import shown
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import to_plain

FILE = "latency.json"
HOW = "milliseconds for one image in float32, onnxruntime on one thread, median of alternating runs"
LARGEST = 1_000_000

MeasureLatency = Callable[[Sequence[tuple[Genotype, NetworkDesign]]], list[float]]
"""Measures networks together, in milliseconds: their runs alternate."""


class _Kept(BaseModel):
    """The contents of `latency.json`, checked when it is read."""

    model_config = ConfigDict(strict=True)
    milliseconds: dict[str, float] = Field(max_length=10_000)


def key_of(genotype: Genotype, design: NetworkDesign) -> str:
    """Return the name of a network in the file: a hash of its cell and of its design, without an auxiliary head."""
    about = [genotype.space, to_plain(genotype), replace(design, auxiliary="none").to_plain()]
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


@dataclass
class Latencies:
    """Latencies in milliseconds; a network is measured once."""

    measure: MeasureLatency
    known: dict[str, float] = field(default_factory=dict)

    def of(self, genotype: Genotype, designs: Sequence[NetworkDesign]) -> list[float]:
        """Return the latencies of networks; those that are not known are measured together."""
        names = [key_of(genotype, design) for design in designs]
        new = {name: design for name, design in zip(names, designs, strict=True) if name not in self.known}
        if new:
            measured = self.measure([(genotype, design) for design in new.values()])
            self.known |= dict(zip(new, measured, strict=True))
        return [self.known[name] for name in names]

    def dumps(self) -> str:
        """Return the text of the file."""
        return json.dumps({"schema": 1, "measured": HOW, "milliseconds": self.known}, indent=2) + "\n"


def read_latencies(folder: Path) -> Mapping[str, float]:
    """Return what a run has measured; nothing where there is no such file."""
    path = folder / FILE
    try:
        return _Kept.model_validate_json(read_regular(path, LARGEST)).milliseconds
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ValueError(f"{shown(path)} must hold latencies, but it does not") from None
