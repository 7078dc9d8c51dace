"""A space of one's own, as the page on methods shows it, goes through every command without a change to the package."""

import csv
import json
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from smallgroup import registry
from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.spaces import GROUND_TRUTHS, SPACES, NetworkConfig, definition_of
from smallgroup.spaces.choices import known_genotype
from smallgroup.testing import DefinitionContract

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
OPERATIONS = ("none", "skip_connect", "conv_1x1", "conv_3x3")
SMALL = {
    "space": {"name": "chain", "channels": 4},
    "data": {"labeled_fraction": 0.2},
    "search": {
        "epochs": 2,
        "steps_per_epoch": 2,
        "v_warmup": 0.0,
        "architecture_warmup": 0.0,
        "hypergradient": "first-order",
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
    },
    "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "network": {"channels": 4, "depth": 3}},
    "playoff": {"candidates": 3, "least_steps": 1, "steps_per_search_step": 1.0, "batch_size": 8},
}
STUDY = """\
title: chains
base: {config}
seeds: 1-2
columns: [percentile, true_accuracy, skips]
primary: percentile
rows:
  - {{name: group, config: {{learners: 2}}}}
  - {{name: random, baseline: {{kind: random, lookups: 5}}}}
  - {{name: evolution, baseline: {{kind: evolution, lookups: 15}}}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the two files of the page, imported as plugins; afterwards nothing is registered any more."""
    folder = tmp_path_factory.mktemp("user")
    *_, space, truth = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "chain.py").write_text(space)
    (folder / "chain_table.py").write_text(truth)
    (folder / "data" / "chain-table").mkdir(parents=True)
    with (folder / "data" / "chain-table" / "accuracies.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["operations", "digits", "others"])
        for number, names in enumerate(product(OPERATIONS, repeat=3)):
            table.writerow([" ".join(names), number, 64 - number])
    registries: tuple[registry.Registry[Any], ...] = (SPACES, GROUND_TRUTHS)
    plugins, before = dict(registry._PLUGINS), [(known, dict(known._registered)) for known in registries]
    registry.import_plugins([str(folder / "chain.py"), str(folder / "chain_table.py")])
    yield folder
    registry._PLUGINS.clear()
    registry._PLUGINS.update(plugins)
    for known, registered in before:
        known._registered.clear()
        known._registered.update(registered)
    for name in ("chain", "chain_table"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """A search of a group of two with a play-off, and the training of what it found."""
    config = place / "config.yaml"
    config.write_text(json.dumps({**SMALL, "data_root": str(place / "data")}))
    folder = place / "run"
    arguments = ["--config", str(config), "--set", "search.answer=play-off", "--set", "space.depth=3"]
    assert main(["search", *arguments, "--learners", "2", "--out", str(folder)]) == 0
    assert main(["train", str(folder)]) == 0
    return folder


@pytest.mark.usefixtures("place")
def test_steps_in_it_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--channels", "4", "--batch", "3", "--size", "8", "--rounds", "1", "--threads", "1", "--path", "torch"]
    assert main(["bench", "step", "--space", "chain", "--learners", "2", *sizes, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["name"].startswith("darts in chain, C=4, batch 3")
    assert row["difference"] < 1e-4  # the textbook's losses
    assert "cells" not in row
    assert main(["bench", "scaling", "--space", "chain", "--over", "cells", *sizes]) == 2
    assert (
        "over cells needs a space with one of the keys cells, cells_per_stage, but got chain" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("place")
class TestChain(DefinitionContract):
    name = "chain"


def test_the_page_on_spaces_is_short() -> None:
    *_, space, truth = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in space.splitlines() if line]) <= 110
    assert len([line for line in truth.splitlines() if line]) <= 25


def test_the_run_says_what_it_is(run: Path) -> None:
    result, trained = (json.loads((run / name).read_text()) for name in ("result.json", "training/result.json"))
    assert result["space"] == trained["space"] == "chain"
    assert len(result["genotype"]) == 3
    assert result["true_accuracy"].keys() == {"digits", "others"}
    assert result["true_accuracy"]["digits"] == 64 - result["true_accuracy"]["others"]
    model = json.loads((run / "training" / "model.json").read_text())
    assert (model["design"]["depth"], model["design"]["channels"], model["design"]["image_size"]) == (3, 4, 8)
    assert "cells" not in model["design"]


def test_its_keys_are_in_the_config_and_listed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = resolve({**SMALL, "space": {"name": "chain"}})
    assert (config.space.depth, config.training.network.depth, config.playoff.network.depth) == (2, 3, 4)
    assert "cells_per_stage" not in config.to_dict()["training"]["network"]
    assert "depth: 3" in (run / "config.yaml").read_text()
    with pytest.raises(ValueError, match=r"^space.depth must be a whole number, but got"):
        resolve({"space": {"name": "chain", "depth": "deep"}})
    assert main(["list", "keys", "--set", "space.name=chain"]) == 0
    listed = capsys.readouterr().out
    assert "space.depth" in listed
    assert "Cells of the supernet, in the chain space." in " ".join(listed.split())
    assert "cells_per_stage" not in listed
    assert main(["list", "spaces"]) == 0
    assert "Cells of two nodes and three edges" in capsys.readouterr().out


def test_a_key_of_the_same_name_takes_what_its_own_space_takes(place: Path) -> None:
    """Here the cells of the DARTS space, of which there may be a hundred."""
    assert place.is_dir()

    class Short(NetworkConfig):
        cells: int = Field(default=1, le=2)

    class Other(type(definition_of("chain"))):  # type: ignore[misc]
        name = "short-chain"
        network_config = Short

    SPACES.register(Other)
    network = {"cells": 2}
    keys = {"space": "short-chain", "training": {"network": network}, "playoff": {"network": network}}
    assert resolve(keys).training.network.cells == 2
    network["cells"] = 50
    with pytest.raises(
        ValueError, match=r"^cells of networks of short-chain: .* less than or equal to 2, but got '50'$"
    ):
        resolve(keys)
    assert resolve({**keys, "space": "darts"}).training.network.cells == 50


def test_it_is_described_shown_reported_and_exported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(run), "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert (described["space"], described["network"], described["auxiliary"]) == ("chain", "run", "none")
    assert main(["describe", str(run), "--network", "imagenet"]) == 0
    assert "images of 224x224" in capsys.readouterr().out
    assert main(["show", str(run)]) == 0
    assert "A node sums what leads to it." in capsys.readouterr().out
    page = (run / "report.html").read_text()
    assert page.count('class="cell-figure"') == 3  # the cell found, and those of two learners
    assert "rue accuracy on digits" in page
    assert main(["report", str(run), "--out", str(run / "page.html")]) == 0
    assert main(["export", str(run), "--format", "pt2"]) == 0
    assert main(["doctor", "--data-root", str(run.parent / "data")]) in (0, 1)
    out = capsys.readouterr().out
    assert "accuracies of all cells of the chain space on digits, others" in " ".join(out.split())
    assert "space chain" in out


def test_it_is_resumed_and_not_without_its_plugin(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--out", str(run), "--resume"]) == 0
    kept = SPACES._registered.pop("chain")
    try:
        assert main(["search", "--out", str(run), "--resume"]) == 2
    finally:
        SPACES._registered["chain"] = kept
    assert "needs space 'chain', which is not registered here" in capsys.readouterr().err


def test_it_is_a_row_of_a_study_and_has_baselines_of_its_own(place: Path) -> None:
    """Worker processes import its files; random search and evolution look its cells up."""
    config = json.dumps({**SMALL, "data_root": str(place / "data")})
    (place / "chains.yaml").write_text(STUDY.format(config=config))
    assert main(["study", str(place / "chains.yaml"), "--workers", "1", "--out", str(place / "studies")]) == 0
    values = (place / "studies" / "chains" / "values.csv").read_text().splitlines()
    for row in ("group", "random", "evolution"):
        assert sum(line.startswith(f"{row},percentile,") for line in values) == 2, values


def test_a_network_beside_it_comes_from_a_space_that_has_one(place: Path) -> None:
    assert place.is_dir()
    resnet = known_genotype("resnet", "chain")
    assert (resnet.space, definition_of("chain").baselines) == ("nas-bench-201", {})
    with pytest.raises(ValueError, match="a registered space must know vgg, but none does"):
        known_genotype("vgg", "chain")
