"""Plugins as users have them: smallgroup as an installed wheel, outside the repository, with real processes."""

import html
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
SMALL = [
    "--hypergradient=first-order",
    "--set=space.channels=2",
    "--set=data.labeled_fraction=0.1",
    "--set=search.epochs=1",
    "--set=search.steps_per_epoch=2",
    "--set=search.v_warmup=0",
    "--set=search.architecture_warmup=0",
    "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}",
]
STUDY = """\
title: sharp
base:
  learners: 2
  space: {channels: 2}
  data: {labeled_fraction: 0.1}
  search: {epochs: 1, steps_per_epoch: 1, batch_size: {train: 8, unlabeled: 8, validation: 8}}
seeds: 1-2
columns: [validation_error]
primary: validation_error
rows:
  - {name: darts, config: {method: darts}}
  - {name: sharp, config: {method: sharp}}
"""


@dataclass(frozen=True)
class Place:
    """A folder of a user, with what is installed there."""

    folder: Path
    packages: list[Path]

    def _command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        path = os.pathsep.join(str(one) for one in self.packages)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        return [sys.executable, "-m", "smallgroup", *arguments], environment

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command, environment = self._command(*arguments)
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, cwd=self.folder, env=environment
        )

    def watched(self, *arguments: str) -> tuple[str, str]:
        """The page of a run that `watch` serves, and what the command says on standard error."""
        command, environment = self._command(*arguments)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment
        ) as process:
            assert process.stdout is not None
            try:
                address = process.stdout.readline().split()[0]
                with urllib.request.urlopen(address, timeout=100) as answer:  # of this machine
                    page = answer.read().decode()
            finally:
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=100)[1]
        assert process.returncode == 0, said
        return page, said

    def done(self, *arguments: str) -> str:
        result = self.call(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refused(self, *arguments: str) -> str:
        result = self.call(*arguments)
        assert result.returncode == 2, result.stderr
        assert result.stderr.count("\n") == 1
        return result.stderr


def install(source: Path, target: Path) -> Path:
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, timeout=300)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sharp(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The method of the page on plugins, in a file, and a search with it."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL)
    folder = tmp_path_factory.mktemp("user")
    # A note of every import: a folder must never cause one.
    (folder / "sharp.py").write_text(f"{block}\n\nopen({str(folder / 'imported')!r}, 'a').write('x')\n")
    place = Place(folder, [wheel])
    method = ["--plugin", "sharp.py", "--method", "sharp", "--set", "methods.sharp.temperature=0.3"]
    place.done("search", *method, *SMALL, "--out", "run")
    return place


def test_the_wheel_has_no_tools_of_contributors(wheel: Path) -> None:
    assert sorted(path.name for path in wheel.iterdir() if path.suffix != ".dist-info" and path.name != "bin") == [
        "smallgroup"
    ]
    assert not (wheel / "smallgroup" / "testing" / "chaos").exists()
    assert (wheel / "smallgroup" / "testing" / "method_contract.py").exists()


def test_a_search_notes_its_plugins_and_options(sharp: Place) -> None:
    config = yaml.safe_load((sharp.folder / "run" / "config.yaml").read_text())
    assert config["plugins"] == ["sharp.py"]
    assert config["methods"] == {"sharp": {"temperature": 0.3}}
    assert json.loads((sharp.folder / "run" / "result.json").read_text())["method"] == "sharp"


def test_what_is_listed(sharp: Place) -> None:
    methods = sharp.done("list", "methods", "--plugin=sharp.py")
    assert "sharp" in methods
    assert "A softmax at a temperature of its own." in methods
    keys = {row["name"]: row for row in json.loads(sharp.done("list", "keys", "--plugin", "sharp", "--json"))}
    temperature = keys["methods.sharp.temperature"]
    assert (temperature["value"], temperature["from"]) == (0.5, "method sharp")
    words = "Divides alpha: the lower, the sharper is the softmax. Takes a number, by default 0.5."
    assert temperature["about"] == words
    assert "\nsharp " not in sharp.done("list", "methods")


def test_a_folder_imports_nothing(sharp: Place) -> None:
    """Without the plugin a run is not resumed, trained or reported; what is shown of it says why it is less."""
    before = (sharp.folder / "imported").read_text()
    wanted = "'sharp', which is not registered here; name the plugin that registers it with --plugin sharp.py"
    assert wanted in sharp.refused("search", "--out", "run", "--resume")
    assert wanted in sharp.refused("train", "run")
    assert wanted in sharp.done("show", "run")
    page = (sharp.folder / "run" / "report.html").read_bytes()
    assert wanted in sharp.refused("report", "run")
    assert (sharp.folder / "run" / "report.html").read_bytes() == page
    assert (sharp.folder / "imported").read_text() == before


def _page(place: Place, *more: str) -> str:
    place.done("report", "run", "--out", "page.html", *more)
    return (place.folder / "page.html").read_text()


def test_with_the_plugin_a_run_is_resumed_shown_and_trained(sharp: Place) -> None:
    result = sharp.call("search", "--out", "run", "--resume", "--plugin", "sharp")
    assert (result.returncode, "there is nothing to resume" in result.stderr) == (0, True)
    assert "not registered" not in sharp.done("show", "run", "--plugin", "sharp")
    assert "not registered" not in _page(sharp, "--plugin", "sharp")
    training = ["--set=training.epochs=1", "--set=training.steps_per_epoch=1", "--set=training.network.channels=2"]
    sharp.done("train", "run", "--plugin", "sharp", *training)
    assert (sharp.folder / "run" / "training" / "result.json").exists()


def test_a_watched_run_says_which_plugin_its_page_needs(sharp: Place) -> None:
    wanted = "'sharp', which is not registered here; name the plugin that registers it with --plugin sharp.py"
    before = (sharp.folder / "imported").read_text()
    page, said = sharp.watched("watch", "run")
    assert said.startswith("warning: run/config.yaml needs method")
    assert wanted in said
    assert wanted in html.unescape(page)
    assert (sharp.folder / "imported").read_text() == before
    page, said = sharp.watched("watch", "run", "--plugin", "sharp.py")
    assert said == "stopped\n"
    assert "not registered" not in page
    # What needs the config, and so the method: its option among the keys that differ from the recipe.
    assert "methods.sharp.temperature" in page


@pytest.mark.slow  # processes that load torch, one after the other
def test_workers_of_a_study_import_it_too(sharp: Place) -> None:
    (sharp.folder / "sharp.yaml").write_text(STUDY)
    sharp.done("study", "sharp.yaml", "--workers", "2", "--plugin", "sharp", "--out", "studies")
    values = (sharp.folder / "studies" / "sharp" / "values.csv").read_text().splitlines()
    assert sum(line.startswith("sharp,validation_error,") for line in values) == 2, values
    assert "method must be one of" in sharp.refused("study", "sharp.yaml", "--out", "others")


@pytest.mark.slow  # processes that load torch, one after the other
def test_a_dataset_of_the_page_on_data(wheel: Path, tmp_path: Path) -> None:
    """In a study, whose workers open it, and its neighbor on the page, data of a script."""
    own, stripes = re.findall(r"```python\n(.*?)```", (ROOT / "docs/data.md").read_text(), re.DOTALL)
    (tmp_path / "stripes.py").write_text(stripes)
    rows = "rows: [{name: stripes, config: {dataset: stripes, unlabeled: train}}]\n"
    (tmp_path / "study.yaml").write_text(STUDY.partition("rows:")[0].replace("1-2", "1") + rows)
    place = Place(tmp_path, [wheel])
    place.done("study", "study.yaml", "--workers", "1", "--plugin", "stripes.py", "--out", "studies")
    values = (tmp_path / "studies" / "study" / "values.csv").read_text()
    assert "stripes,validation_error," in values
    (tmp_path / "own.py").write_text(own)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(wheel)}
    done = subprocess.run(
        [sys.executable, "own.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\|\S+\| \d+\.\d+\n", done.stdout)
    assert "dataset: own:halves@" in (tmp_path / "runs" / "halves" / "training" / "config.yaml").read_text()


def test_a_package_with_an_entry_point_needs_no_option(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    packages = [wheel, install(ROOT / "examples" / "plugin", tmp_path_factory.mktemp("package"))]
    place = Place(tmp_path_factory.mktemp("user"), packages)
    assert "cooling" in place.done("list", "methods")
    assert "smallgroup_cooling:Cooling" in place.done("doctor")
    place.done("search", "--method=cooling", "--set=methods.cooling.limit=0.2", *SMALL, "--out", "run")
    without = Place(place.folder, [wheel])
    assert "needs method 'cooling'" in without.refused("search", "--out", "run", "--resume")


def test_the_method_and_the_space_of_the_page_on_methods(wheel: Path, tmp_path: Path) -> None:
    """Both as written there, in one search and one training."""
    method, space, _ = re.findall(r"```python\n(.*?)```", (ROOT / "docs/methods.md").read_text(), re.DOTALL)
    (tmp_path / "cooling.py").write_text(f"{method}\n\nfrom smallgroup.methods import register\n\nregister(Cooling)\n")
    (tmp_path / "chain.py").write_text(space)
    place, plugins = Place(tmp_path, [wheel]), ["--plugin=cooling.py", "--plugin=chain.py"]
    place.done("search", *plugins, "--method=cooling", "--space=chain", *SMALL, "--out", "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["method"], result["space"]) == ("cooling", "chain")
    training = ["--set=training.epochs=1", "--set=training.steps_per_epoch=1", "--set=training.network.channels=2"]
    place.done("train", "run", *plugins, *training)
    assert (tmp_path / "run" / "training" / "result.json").exists()
    assert "needs method 'cooling'" in place.refused("search", "--out", "run", "--resume", "--plugin=chain.py")
    # What takes the cell or the model alone needs the space alone.
    needed = "but got 'chain'; a space of a plugin is registered by --plugin MODULE, or in Python by importing it"
    for command in (["describe", "run"], ["predict", "run", "run"]):
        assert needed in place.refused(*command)
    assert "registers it with --plugin cooling.py --plugin chain.py" in place.refused("train", "run")
    place.done("describe", "run", "--plugin=chain.py")
