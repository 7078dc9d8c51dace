"""What README and docs say can be done, can be done."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

from smallgroup import group
from smallgroup.cli.app import app
from smallgroup.config import resolve

ROOT = Path(__file__).parents[2]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Two threads on tiny networks mostly wait for one another."""
PAGES = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
GENERATED = [ROOT / "docs" / "reference" / f"{name}.md" for name in ("api", "commands", "extending", "group", "keys")]
GENERATED.append(ROOT / "docs" / "figures" / "cell.svg")
"""What is made when the site is built; `test_site.py` follows links to them."""


def test_python_in_the_readme_and_the_page_of_groups_runs_and_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block by itself, with nothing but what it imports."""
    monkeypatch.chdir(tmp_path)
    for page in ("README.md", "docs/group.md"):
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
            exec(block, {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"\|\S+\| \d+\.\d+", lines[0])
    assert (tmp_path / "runs" / "three" / "result.json").exists()
    for line in lines[1:]:
        assert re.match(r"validation loss \d+\.\d{3}, terms .*'direct'.*'own'.*'cross'.*'label'", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_have_options_that_exist(page: Path) -> None:
    whole = cast(Any, typer.main.get_command(app))
    commands, everywhere = whole.commands, {"--help", "--debug", "--plugin"}
    assert everywhere - {"--help"} <= {name for each in whole.params for name in each.opts}
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = line.partition("#")[0].split()
            if not words or not words[0].endswith("smallgroup"):
                continue
            command = commands[words[1]]
            if hasattr(command, "commands"):  # one of several of its own
                command = command.commands[words[2]]
            known = {name for each in command.params for name in each.opts} | everywhere
            assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize(("page", "lines", "passed"), [("methods.md", 30, 20), ("tasks.md", 30, 39)])
def test_what_a_page_writes_as_an_example_keeps_to_the_contract(
    tmp_path: Path, page: str, lines: int, passed: int
) -> None:
    block, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= lines
    (tmp_path / "test_example.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path, env=ONE_THREAD
    )
    assert done.returncode == 0, done.stdout
    assert f"{passed} passed" in done.stdout, done.stdout


def test_the_page_of_the_search_has_the_settings_of_quick() -> None:
    """Its table compares the recipe with the paper, and must follow a change of the recipe."""
    search, space = resolve({}).search, resolve({}).space
    darts, p_darts = resolve({"space": {"name": "darts"}}), resolve({"method": "p-darts"})
    table = (ROOT / "docs" / "search.md").read_text().partition("## The paper, the published code")[2]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    shown = {row[0]: row[-1] for row in cells}
    assert shown["V alone first"] == f"{search.v_warmup:g}"
    assert shown["A begins"] == f"{search.architecture_warmup:g}"
    assert shown["lambda"] == f"{search.lam:g}"
    assert shown["batch"] == str(search.batch_size.train)
    assert shown["SGD of V and W"] == f"{search.weights.lr:g}"
    assert shown["Adam of A"] == f"{search.architecture.lr:g}"
    assert shown["network"].startswith(f"{space.channels} channels, {space.cells_per_stage} cell per stage")
    epochs = [f"{each.search.epochs} of {each.search.steps_per_epoch}" for each in (resolve({}), darts, p_darts)]
    assert shown["epochs"] == f"{epochs[0]} steps; DARTS space: {epochs[1]}, P-DARTS: {epochs[2]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            linked = (page.parent / file).resolve() if file else page
            if linked in GENERATED:
                continue
            assert linked.exists(), target
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE) if anchor else []
            assert not anchor or anchor in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_targets_named_in_the_pages_exist(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"(?:examples|smallgroup|docs|tests)/[\w/.-]+\.\w+", text):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"python -m ([\w.]+)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert target in targets


def test_every_public_class_and_function_is_documented() -> None:
    public = [getattr(group, name) for name in group.__all__]
    assert len(public) > 8
    for value in public:
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, value


DRAWING = {"rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "rand_like", "randn_like"}
DRAWING |= {"bernoulli_", "normal_", "uniform_", "exponential_", "random_", "shuffle"}


def test_random_numbers_are_never_drawn_from_a_global_generator() -> None:
    """Every draw names its generator; a seed is only set on a generator of one's own (`ModuleApply`: and put back)."""
    for file in sorted((ROOT / "smallgroup").rglob("*.py")):
        text = file.read_text()
        if "testing" in file.parts:  # the contract looks where the global generators stand
            text = text.replace("import random\n", "").replace("numpy.random.get_state()", "")
        forbidden = r"np\.random|numpy\.random|^\s*(?:import|from) random\b|\.cuda\(|torch\.manual_seed\("
        assert not re.search(forbidden, text, re.MULTILINE), file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DRAWING:
                named = {keyword.arg for keyword in node.keywords}
                assert "generator" in named, f"{file}:{node.lineno} draws without a generator of its own"
