"""The site is built offline without a warning, and every link in it leads somewhere."""

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import smallgroup
from smallgroup import group

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


class Site(HTMLParser):
    """Where a page leads to, and which places it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self.places |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        if tag in ("script", "img", "iframe") and "src" in own:
            self.loaded.append(own["src"])
        if tag == "link" and own.get("rel") in ("stylesheet", "preconnect", "icon"):
            self.loaded.append(own["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Site]:
    folder = tmp_path_factory.mktemp("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # No way to the network: a build that needs one fails.
    closed = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    environment = {**os.environ, **closed, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return {file: Site(file) for file in folder.rglob("*.html")}


def test_every_internal_link_leads_somewhere(site: dict[Path, Site]) -> None:
    assert len(site) > 35
    checked = 0
    for file, page in site.items():
        if file.name == "404.html":  # its links are those of the root of a server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            goal = goal / "index.html" if goal.is_dir() else goal
            assert goal.exists(), f"{file.name}: {link}"
            if parts.fragment and goal in site and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in site[goal].places, f"{file.name}: {link}"
            checked += 1
    assert checked > 1000


def test_pages_load_nothing_from_elsewhere(site: dict[Path, Site]) -> None:
    for file, page in site.items():
        assert not [one for one in page.loaded if re.match(r"(?:\w+:)?//", one)], file


def test_commands_keys_and_public_names_are_in_the_reference(site: dict[Path, Site]) -> None:
    texts = {file.relative_to(file.parents[1]).as_posix(): file.read_text() for file in site}
    for words in ("smallgroup search", "smallgroup bench step", "--max-ram-kb", "--time-budget"):
        assert words in texts["reference/commands.html"]
    for key in ("search.lambda", "training.max_ram_kb", "methods.pc-darts.part"):
        assert key in texts["reference/keys.html"]
    for package, page in ((smallgroup, "api"), (group, "group")):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):  # not names of types and of settings
                assert f"{package.__name__}.{name}" in texts[f"reference/{page}.html"], name


@pytest.mark.parametrize("file", TUTORIALS, ids=lambda file: file.stem)
def test_python_in_the_tutorials_runs(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block by itself; what it registers is taken out again."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        if "@smallgroup.methods.register" in block:  # in a process of its own: a registry is for good
            (tmp_path / "cold.py").write_text(block)
            command = [sys.executable, "-m", "smallgroup", "list", "methods", "--plugin", "cold.py"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            assert re.search(r"^cold\s", done.stdout, re.MULTILINE)
        else:
            exec(block, {"__name__": "__main__"})
            assert capsys.readouterr().out.strip()
