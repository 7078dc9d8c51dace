"""Whose cells a group trains: as a user names them, and as a run writes them down. It is read without torch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from smallgroup.phases.training.place import ABOUT
from smallgroup.runtime.files import read_regular
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import FILE as GENOTYPE
from smallgroup.spaces.genotypes import from_plain, read, resolve, to_plain

FILE = "cells.json"
"""The name of the file in a run's folder."""
SCHEMA = 1
AnyCell = Genotype | Path | str
"""A cell, or how a user names it: a published name, a file, the folder of a search, or its text."""


def listed(named: AnyCell | Sequence[AnyCell]) -> list[AnyCell]:
    """Return the cells that are named, one or several, as a list."""
    return list(cast(Sequence[AnyCell], named)) if isinstance(named, list | tuple) else [cast(AnyCell, named)]


@dataclass(frozen=True)
class GroupCells:
    """The cells of the networks of a group, one per learner."""

    genotypes: tuple[Genotype, ...]

    @classmethod
    def of(cls, named: Sequence[AnyCell], learners: int) -> "GroupCells":
        """Return one cell per learner.

        One that is named is that of every learner; of a search with so many learners, each has the cell it found.
        """
        if len(named) == 1:
            found = _of_search(named[0], learners)
            return cls(found if found is not None else (_resolved(named[0]),) * learners)
        if len(named) != learners:
            raise ValueError(
                f"one cell, or one per learner, must be named, but got {len(named)} for {learners} learners"
            )
        return cls(tuple(_resolved(one) for one in named))

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the group; learners by number, so that an error can name a difference."""
        return {"cells": {str(k): to_plain(genotype) for k, genotype in enumerate(self.genotypes)}}

    def dumps(self) -> str:
        """Return the text of the file `cells.json`."""
        spaces = [genotype.space for genotype in self.genotypes]
        return json.dumps({"schema": SCHEMA, "spaces": spaces, **self.to_dict()}) + "\n"

    @staticmethod
    def read(folder: Path) -> "GroupCells":
        """Read the cells of the group whose training was begun in a folder."""
        path = folder / FILE
        try:
            data = json.loads(read_regular(path))
            if data["schema"] != SCHEMA:
                raise ValueError(f"its schema must be {SCHEMA}")
            return GroupCells(tuple(from_plain(space, data["cells"][str(k)]) for k, space in enumerate(data["spaces"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path} must name the cells of a group, but it does not: {str(error)[:200]}") from None


def _resolved(named: AnyCell) -> Genotype:
    return resolve(str(named))[1] if isinstance(named, str | Path) else named


def _of_search(named: AnyCell, learners: int) -> tuple[Genotype, ...] | None:
    """Return the cells that the learners of a finished search found, if there are so many; else None."""
    if not isinstance(named, str | Path) or learners < 2 or (Path(named) / ABOUT).exists():
        return None
    try:
        data = json.loads(read_regular(Path(named) / "result.json"))
        group, space = data["group"], data["space"]
        spaces = space.split("+") if "+" in space else [space] * len(group)
        found = tuple(from_plain(own, one["genotype"]) for own, one in zip(spaces, group, strict=True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if len(found) == learners else None


def identity_of(cells: GroupCells, *, alone: bool) -> dict[str, Any]:
    """Return what a training is known by beside its config."""
    return {"genotype": to_plain(cells.genotypes[0])} if alone else cells.to_dict()


def begun(folder: Path, *, alone: bool) -> dict[str, Any]:
    """Return the same of the training that was begun in a folder."""
    own = GroupCells((read(folder / GENOTYPE, links=False)[0],)) if alone else GroupCells.read(folder)
    return identity_of(own, alone=alone)
