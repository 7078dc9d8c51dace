"""One room per concern, and imports go downwards only."""

import ast
from pathlib import Path

import pytest

import smallgroup

PACKAGE = Path(smallgroup.__file__).parent
FLOORS = [
    ["cli"],
    ["testing"],
    ["study"],
    ["api", "bench"],
    ["config"],
    ["report"],
    ["phases"],
    ["runner"],
    ["group", "methods"],
    ["networks"],
    ["spaces", "data", "recipes"],
    ["kernels"],
    ["runtime", "statistics"],
]
"""From the top; rooms of one floor do not know each other."""
ROOMS = sorted(path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py")
ROOMS = [name for name in ROOMS if not name.startswith("_")]


def test_every_room_has_a_floor() -> None:
    assert sorted(room for floor in FLOORS for room in floor) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_floors_below_alone(room: str) -> None:
    floor = next(i for i, rooms in enumerate(FLOORS) if room in rooms)
    below = {other for rooms in FLOORS[floor + 1 :] for other in rooms} | {room}
    place = PACKAGE / room
    for file in place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom) and node.module == "smallgroup":
                names = [f"smallgroup.{alias.name}" for alias in node.names if not alias.name.startswith("_")]
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                parts = (name or "").split(".")
                if parts[0] == "smallgroup" and len(parts) > 1:
                    assert parts[1] in below, f"{file} imports {name}"
