"""One file of a copy at a time is spoiled, and everything that commands make of it is looked at."""

import random
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from smallgroup.runtime import seed_of
from tests.tools.fuzz.outputs.attacks import ATTACKS, WORST
from tests.tools.fuzz.outputs.looks import look_at_file, look_at_text
from tests.tools.fuzz.outputs.material import STUDY, Material
from tests.tools.fuzz.outputs.places import KEY, Place, places_in, planted, read, write
from tests.tools.fuzz.outputs.steps import Said, heard

SHOWN = {"class_errors", "test_set", "choice", "dataset", "warnings", "classes", "notes", "theirs", "error", "about"}
"""Keys of texts that are not checked when they are read."""
HARMLESS = ("base", "config", "recipe", "columns", "primary", "figures")
"""Keys of a study that say what is run: it would be run."""


@dataclass(frozen=True)
class Attempt:
    """An attack at some places of a file."""

    file: Path
    places: tuple[Place, ...]
    attack: str
    """Its name; none is all of them in one text."""

    @property
    def text(self) -> str:
        """What is planted."""
        return ATTACKS.get(self.attack, WORST)


@dataclass
class Findings:
    """What came of attempts."""

    tried: int = 0
    commands: int = 0
    refused: int = 0
    """Commands that ended with an error in a line."""
    files: int = 0
    """That were looked at."""
    defects: list[str] = field(default_factory=list)


def places_of(material: Material, file: Path, *, scalars: bool = False) -> list[Place]:
    """Where something can be planted in a file."""
    found = places_in(read(material.root / file), scalars=scalars)
    return [place for place in found if not (file.name == STUDY and set(HARMLESS) & set(place))]


def every_attempt(material: Material) -> Iterator[Attempt]:
    """All texts of a file at once, file by file; then each value of what is read leniently or shown as it is.

    Names of rows come last: they are cells of tables, which in TeX and CSV are dangerous in other ways than comments.
    """
    for file in material.files():
        places = places_of(material, file)
        values = tuple(place for place in places if KEY not in place)
        if values:
            yield Attempt(file, values, "")
        soft = tuple(place for place in places if _is_shown(file, place))
        if soft and soft != values:
            yield Attempt(file, soft, "")
    for attack in ("formula", "tex on one line"):
        yield Attempt(Path(STUDY), (("rows", 0, "name"), ("claims", 0, "row")), attack)


def _is_shown(file: Path, place: Place) -> bool:
    """Whether the rest of the file can be used with any text there."""
    return bool(SHOWN & set(map(str, place))) and file.name != "config.yaml"


def random_attempts(material: Material, rounds: int, number: int = 0) -> Iterator[Attempt]:
    """One place, some or all of a file, and one attack; numbers are replaced too now and then."""
    draw = random.Random(seed_of(number, "outputs"))
    files = material.files()
    for _ in range(rounds):
        file = draw.choice(files)
        places = places_of(material, file, scalars=draw.random() < 0.3)
        if not places:
            continue
        count = draw.choice([1, 1, 1, min(3, len(places)), len(places)])
        yield Attempt(file, tuple(draw.sample(places, count)), draw.choice(["", *ATTACKS]))


def try_outputs(
    material: Material, attempts: Iterable[Attempt], only: str = "", *, until_found: bool = False
) -> Findings:
    """Make every attempt on a copy of its own.

    Args:
        material: what is copied.
        attempts: one after the other.
        only: a pattern of the commands that are run.
        until_found: whether to end after the first attempt that finds a defect.
    """
    found = Findings()
    for attempt in attempts:
        if until_found and found.defects:
            break
        with tempfile.TemporaryDirectory() as name:
            _try(material.copied(Path(name) / "runs"), attempt, found, only)
    return found


def look_at_said(what: str, said: Said, found: Findings, where: str = "") -> None:
    """Look at what a command printed."""
    found.commands += 1
    found.refused += said.code != 0
    for stream, text in (("standard output", said.out), ("standard error", said.err)):
        found.defects += [f"{what}: {stream}: {defect}{where}" for defect in look_at_text(text)]


def _try(copy: Material, attempt: Attempt, found: Findings, only: str) -> None:
    found.tried += 1
    path, where = copy.root / attempt.file, f" ({attempt.attack or 'all attacks'} in {attempt.file}, {attempt.places})"
    where = where if len(where) < 300 else f"{where[:300]}..."
    write(path, planted(read(path), attempt.places, lambda _: attempt.text))
    for name, step in copy.steps(attempt.file).items():
        what, before = name.replace(str(copy.root), "RUNS"), _stamps(copy.root)
        if not re.search(only, what):
            continue
        try:
            look_at_said(what, heard(step), found, where)
        except Exception as error:
            found.defects.append(f"{what}: {type(error).__name__}: {error}{where}")
        for file, stamp in _stamps(copy.root).items():
            if before.get(file) != stamp:
                found.files += 1
                name_ = file.relative_to(copy.root)
                found.defects += [f"{what}: {name_}: {defect}{where}" for defect in look_at_file(file)]


def _stamps(root: Path) -> dict[Path, tuple[int, int]]:
    """Of all files: what changes when they are written."""
    found = {path: path.stat() for path in root.rglob("*") if path.is_file() and path.name != ".lock"}
    return {path: (about.st_mtime_ns, about.st_ino) for path, about in found.items()}
