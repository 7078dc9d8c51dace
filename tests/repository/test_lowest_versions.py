"""The lowest versions that are declared are those that `make test-minimum` installs."""

import re
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = {
    "build",
    "hatchling",
    "import-linter",
    "ipykernel",
    "mkdocs",
    "mkdocs-material",
    "mkdocstrings-python",
    "mypy",
    "nbclient",
    "nbformat",
    "pandas",
    "playwright",
    "pre-commit",
    "ray",
    "ruff",
    "scipy-stubs",
    "transformers",
    "twine",
    "types-pyyaml",
}
"""Nothing that runs in the quick part of the suite."""


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "constraints" / name).read_text().splitlines()
    found = [re.fullmatch(r"([\w-]+)(.*)", line) for line in lines if not line.startswith("#")]
    return {match[1].lower(): match[2] for match in found if match}


def test_the_lowest_versions_are_the_declared_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared: dict[str, str] = {}
    for text in [*project["dependencies"], *chain(*project["optional-dependencies"].values())]:
        name, _, version = text.lower().partition(">=")
        assert declared.setdefault(name, version) == version, f"{name} has two lowest versions"
        assert re.fullmatch(r"[\d.]+", version), f"{text} must have a lower bound alone"
    lowest = {name: f"=={version}" for name, version in declared.items() if name not in TOOLS}
    assert pins("minimum.txt") == {**lowest, "torch": pins("tested.txt")["torch"]}
    assert pins("tested.txt") == {"torch": f">={declared['torch']},<2.14"}
