"""Who learns together: the cells of the networks, and how much they listen to one another."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.checks import check_number
from smallgroup.runtime.files import read_regular
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import from_plain, to_plain

FILE = "peers.json"
"""The name of the file in a run's folder."""
SCHEMA = 1


@dataclass(frozen=True)
class Peers:
    """Two networks or more, of the same cell or of different ones, of any space."""

    genotypes: tuple[Genotype, ...]
    weight: float = 1.0
    """Weight of the divergence from the peers, beside the loss on the labels; 0: no network learns from another."""

    def __post_init__(self) -> None:
        if not 2 <= len(self.genotypes) <= MOST["learners"]:
            raise ValueError(
                f"2 to {MOST['learners']} networks can learn together, but got {len(self.genotypes)}; use "
                "--learners to train several networks of one cell"
            )
        check_number("weight", self.weight)
        object.__setattr__(self, "weight", float(self.weight))

    @classmethod
    def of(cls, genotypes: tuple[Genotype, ...], learners: int | None, weight: float) -> "Peers":
        """Return the group that a user names: several cells, or one cell and a number of learners."""
        if learners is None:
            return cls(genotypes, weight)
        if len(genotypes) > 1:
            raise ValueError(
                f"the number of learners can be set for one cell only, but got {learners} and {len(genotypes)} cells"
            )
        if not 2 <= learners <= MOST["learners"]:
            raise ValueError(f"2 <= learners <= {MOST['learners']} must hold, but got learners={learners}")
        return cls(genotypes * learners, weight)

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the group; learners by number, so that an error can name a difference."""
        cells = {str(k): to_plain(genotype) for k, genotype in enumerate(self.genotypes)}
        return {"weight": self.weight, "learners": cells}

    def dumps(self) -> str:
        """Return the text of the file `peers.json`."""
        spaces = [genotype.space for genotype in self.genotypes]
        return json.dumps({"schema": SCHEMA, "spaces": spaces, **self.to_dict()}) + "\n"

    @staticmethod
    def read(folder: Path) -> "Peers":
        """Read the group whose run was begun in a folder."""
        return Peers.loads(read_regular(folder / FILE), folder / FILE)

    @staticmethod
    def loads(text: str | bytes, path: Path = Path(FILE)) -> "Peers":
        """Parse the group from the text of a file."""
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise ValueError(f"its schema must be {SCHEMA}")
            cells = (from_plain(space, data["learners"][str(k)]) for k, space in enumerate(data["spaces"]))
            return Peers(tuple(cells), data["weight"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path} must say who learns together, but it does not: {str(error)[:200]}") from None
