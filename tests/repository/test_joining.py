"""What people who join rely on: the architecture page, the workflows, and numbers that stand in several files."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import smallgroup

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def paths_named_in(text: str) -> set[str]:
    """Modules and folders of the package that a page names."""
    return set(re.findall(r"\bsmallgroup/[\w/.-]*[\w/]", text))


def test_every_module_that_the_architecture_names_exists() -> None:
    named = paths_named_in((ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 60
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_names_of_modules_are_noticed() -> None:
    text = "see `smallgroup/group/step.py`, smallgroup/cli/ and smallgroup/jobs.py."
    assert paths_named_in(text) == {"smallgroup/group/step.py", "smallgroup/cli/", "smallgroup/jobs.py"}


def test_the_architecture_names_every_layer() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    small = {"version", "baseline_names"}  # a few names each
    names = {name for line in layers for name in line.split(" | ")} - small
    for name in names:
        assert re.search(rf"`smallgroup/{name}(/|\.py)`", text), f"docs/architecture.md does not name the layer {name}"


def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())
    return found


def test_the_workflow_runs_targets_that_exist_on_the_python_versions_that_are_declared() -> None:
    jobs = workflow()["jobs"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = [step["run"].removeprefix("make ") for job in jobs.values() for step in job["steps"] if "run" in step]
    assert set(called) >= {"lint", "types", "suite", "dist"}
    assert set(called) <= set(targets)
    prefix = "Programming Language :: Python :: "
    declared = [one.removeprefix(prefix) for one in PROJECT["project"]["classifiers"] if one.startswith(prefix)]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == declared
    assert PROJECT["project"]["requires-python"].startswith(f">={declared[0]}")


@pytest.mark.parametrize("file", sorted(GITHUB.rglob("*.yml")), ids=lambda file: file.name)
def test_files_for_the_forge_are_yaml_and_name_no_registry(file: Path) -> None:
    text = file.read_text()
    assert isinstance(yaml.safe_load(text), dict)
    assert not re.search(r"https?://|pypi|--index|pytorch\.org", text)


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == smallgroup.__version__
    newest = re.search(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == smallgroup.__version__
    # A section with a date is a release, of which the citation has the same date.
    assert newest[2] == str(citation.get("date-released", "not released yet"))


def test_every_tool_of_contributors_is_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tools = [file for file in (ROOT / "tests" / "tools").rglob("*.py") if '__name__ == "__main__"' in file.read_text()]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__") for file in tools}
    children = {"tests.tools.chaos.child"}
    assert len(names - children) >= 6
    for name in names - children:
        assert f"`python -m {name}" in text, name
