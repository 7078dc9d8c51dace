"""Sizes beyond any use are refused in a sentence before anything is built, in configs and in the files of a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from annotated_types import Le, MaxLen
from pydantic import BaseModel

from smallgroup import pages
from smallgroup.cli.main import main
from smallgroup.config import Config, resolve
from smallgroup.methods import Method, Relaxed
from smallgroup.methods.darts import Darts
from smallgroup.methods.p_darts import PDarts
from smallgroup.methods.pc_darts import PcDarts
from smallgroup.phases.training.model import read_model
from smallgroup.report.page import page
from smallgroup.report.run import MetricsRow
from smallgroup.report.teaching import teaching_of
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.memory import OutOfMemory, check_batch, check_room, memory_explained
from smallgroup.spaces.darts import CellGenotype, DartsGenotype, DartsSpace, Edge, supernet
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.supernet import DartsMixedCell
from smallgroup.spaces.genotypes import resolve as resolve_genotype
from smallgroup.spaces.networks import build_network
from tests.report.makers import make_run

HUGE = 1_000_000_000
UNBOUNDED = {"seed", "data.split_seed", "run.most_skipped", "training.max_parameters", "training.max_multiply_adds"}
UNBOUNDED |= {"training.max_flash_kb", "training.max_ram_kb", "training.max_latency_ms"}
"""Whole numbers that nothing is made of: they are compared with others, or hashed."""


def whole_numbers(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        key, kind = f"{prefix}{field.alias or name}", field.annotation
        if kind in (int, int | None):
            yield key, field
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from whole_numbers(kind, f"{key}.")


FIELDS = dict(whole_numbers(Config))


@pytest.mark.parametrize("key", sorted(FIELDS.keys() - UNBOUNDED))
def test_every_size_in_a_config_has_a_bound(key: str) -> None:
    with pytest.raises(ValueError, match=rf"^{key}: Input should be less than or equal to .* but got '{HUGE}'$"):
        resolve({}, [f"{key}={HUGE}"])
    assert any(isinstance(rule, Le) for rule in FIELDS[key].metadata)


def test_lists_in_a_config_have_a_bound() -> None:
    assert any(isinstance(rule, MaxLen) for rule in Config.model_fields["learners"].metadata)
    with pytest.raises(ValueError, match="learners: Tuple should have at most 64 items"):
        resolve({"learners": [{}] * 65})
    stages = MOST["stages"]
    with pytest.raises(ValueError, match=f"stages <= {stages} must hold, but got stages={stages + 1}"):
        PDarts(added=(1,) * stages, kept=(3,) * stages, dropout=(0.0,) * (stages + 1))


def test_a_command_refuses_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["search", "--set", f"space.cells_per_stage={HUGE}", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error == f"error: space.cells_per_stage: Input should be less than or equal to 50, but got '{HUGE}'\n"
    assert not out.exists()


def changed(folder: Path, name: str, **values: Any) -> None:
    file = folder / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.mark.parametrize("key", ["space.cells_per_stage", "training.network.cells_per_stage", "training.network.cells"])
def test_the_config_of_a_run_may_be_absurd(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run")
    config = resolve({}).to_dict()
    section: Any = config
    for part in key.split(".")[:-1]:
        section = section[part]
    section[key.rpartition(".")[2]] = HUGE
    (folder / "config.yaml").write_text(json.dumps(config))
    sentence = f"config.yaml cannot be used: {key}: Input should be less than or equal to"
    assert main(["show", str(folder)]) == 0
    assert sentence in capsys.readouterr().out
    found = pages.read_one_run(folder)
    assert any(sentence in problem for problem in found.problems)
    assert sentence in page([found])


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"image": {"channels": 1, "size": HUGE}}, "image_size <= 4,096 must hold, but got image_size=1000000000"),
        ({"image": {"channels": HUGE, "size": 8}}, "image_channels <= 1,024 must hold, but got image_channels="),
        ({"image": {"channels": 1}}, "'size' is missing"),
        ({"classes": ["a"] * 1_000_000}, "facts.json must name at most 50,000 classes, but it names 1,000,000"),
    ],
)
def test_the_facts_of_a_run_may_be_absurd(facts: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    changed(folder, "facts.json", **facts)
    found = pages.read_one_run(folder)
    assert any(sentence in problem for problem in found.problems), found.problems
    assert found.given.size is None
    assert len(found.classes) == 3


def test_rows_of_absurd_epochs_learners_and_classes_are_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=1, learners=1)
    (line,) = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), "epoch": HUGE}, {**json.loads(line), "learner": 64}]
    (folder / "metrics.jsonl").write_text("\n".join([line, *map(json.dumps, rows)]) + "\n")
    found = pages.read_one_run(folder)
    assert (found.epochs, found.learners) == ([1], [0])
    assert MetricsRow(1, {"many": [0.5] * (MOST["classes"] + 1)}).numbers("many") is None


def test_imagenet_with_all_its_classes_can_be_drawn(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", epochs=2)
    changed(folder, "facts.json", classes=[f"n{number:08}" for number in range(21_841)])
    found = pages.read_one_run(folder)
    assert found.problems == ()
    assert found.given.size is not None


def test_the_work_of_a_page_grows_with_the_classes_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    numbers = MetricsRow.numbers

    def counted(row: MetricsRow, *path: str) -> list[float] | None:
        calls.append(path)
        return numbers(row, *path)

    monkeypatch.setattr(MetricsRow, "numbers", counted)
    counts = []
    for classes in (3, 30):
        folder = make_run(tmp_path / str(classes), classes=tuple(map(str, range(classes))))
        found = pages.read_one_run(folder)
        assert teaching_of(found, found) is not None
        counts.append(len(calls))
        calls.clear()
    assert counts[0] == counts[1]


def test_sizes_that_are_too_large_together() -> None:
    cell = resolve_genotype("PDARTS")[1]
    rule = "a network must have at most 1,000,000,000 parameters, but this one would have "
    with pytest.raises(ValueError, match=rule):
        build_network(cell, DartsDesign(images=ImageSpec(10, 3, 32), channels=4096, cells=5), device="meta")
    with pytest.raises(ValueError, match=rule):
        Relaxed(DartsSpace(channels=4096, cells=3), Darts())


@pytest.mark.parametrize("method", [Darts, PcDarts, PDarts])
@pytest.mark.parametrize("space", [DartsSpace(cells=3), DartsSpace(cells=20), DartsSpace(stem="imagenet", cells=11)])
def test_a_supernet_is_counted_before_all_its_cells_are_built(
    space: DartsSpace, method: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = method()
    own.start(space)
    masks = {kind: torch.ones(space.kinds[kind].shape, dtype=torch.bool) for kind in space.kinds}
    masks["normal"][3:, :4] = False
    counted: list[int] = []
    monkeypatch.setattr(supernet, "check_parameters", counted.append)
    built = space.supernet(own.build_edge, masks)
    assert counted == [sum(parameter.numel() for parameter in built.parameters())]
    assert list(dict(built.named_children())) == ["stem", "cells", "classifier"]  # initial weights have this order


def test_a_deep_supernet_that_is_too_large_is_refused_before_its_cells_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[object] = []
    cell = supernet.DartsMixedCell

    def noted(*given: Any, **named: Any) -> DartsMixedCell:
        built.append(given)
        return cell(*given, **named)

    monkeypatch.setattr(supernet, "DartsMixedCell", noted)
    with pytest.raises(ValueError, match="but this one would have 1,096,340,549,642;"):
        Relaxed(DartsSpace(channels=4096, cells=MOST["cells"]), Darts())
    assert len(built) <= 12


def test_what_cannot_fit_into_memory_is_refused_before_it_is_made() -> None:
    with (
        pytest.raises(OutOfMemory, match=r"images of 4096x4096 pixels would take .* GB of memory are free; lower it"),
        memory_explained("lower it"),
    ):
        check_batch(MOST["batch_size"], 3, 4096, 36)
    check_room(1, "a byte")


def test_a_node_with_countless_edges_is_no_cell() -> None:
    many = CellGenotype(((Edge("skip_connect", 0),) * 21, *((Edge("skip_connect", 0),),) * 3), (2, 3, 4, 5))
    with pytest.raises(ValueError, match="node 2 of the normal cell must have at most 20 edges, but has 21"):
        DartsGenotype(many, many)


def test_a_model_of_absurd_size_is_not_built(tmp_path: Path) -> None:
    cell = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|"
    design = {"classes": 2, "image_channels": 1, "image_size": 8, "channels": 8, "cells_per_stage": HUGE}
    about = {"schema": 1, "sha256": "", "space": "nas-bench-201", "genotype": cell, "design": design}
    (tmp_path / "model.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="cells_per_stage <= 50 must hold, but got cells_per_stage=1000000000"):
        read_model(tmp_path)
