"""The small form of `python -m tests.tools.fuzz.outputs`, and proof that it would notice."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed: hostile output was not looked for")

from tests.tools.fuzz.outputs import (
    CONTROLS,
    Attempt,
    Findings,
    Material,
    every_attempt,
    make_material,
    try_outputs,
    without_cleaning,
)
from tests.tools.fuzz.outputs.attempts import look_at_said, places_of
from tests.tools.fuzz.outputs.listed import list_attacks
from tests.tools.fuzz.outputs.looks import look_at_file
from tests.tools.fuzz.outputs.material import SEARCH, STUDIES, TRAINING
from tests.tools.fuzz.outputs.places import KEY
from tests.tools.fuzz.outputs.steps import Said

Made = tuple[Material, dict[str, Said]]
TABLE = r"^study \S+ --out \S+$"
"""The command that writes the table of a study in every format."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A search, a training and a study of images with hostile names, and what the commands said."""
    return make_material(tmp_path_factory.mktemp("made"))


def attempt(material: Material, name: str, part: str, *under: str, attack: str = "") -> Attempt:
    """All texts of a file in a part of the folder, or those under some keys; without an attack, all of them in one."""
    file = next(path for path in material.files() if path.name == name and path.parts[0] == part)
    places = [place for place in places_of(material, file) if not under or set(under) & set(map(str, place))]
    if not under:
        places = [place for place in places if KEY not in place]
    return Attempt(file, tuple(place for place in places if place[-1] not in under), attack)


def test_what_commands_say_of_hostile_names(made: Made) -> None:
    _, said = made
    found = Findings()
    for what, one in said.items():
        look_at_said(what, one, found)
    assert found.defects == []
    assert found.refused == 0
    assert any("hardest classes: " in one.out and r"\x1b[31m" in one.out for one in said.values())
    assert sum(what.startswith("list ") for what in said) == 4


@dataclass(frozen=True)
class Case:
    """A file of which texts are attacks, and what is made of it."""

    name: str
    part: str
    only: str
    files: int
    """That are written at least."""
    under: Sequence[str] = ()


@pytest.mark.parametrize(
    "case",
    [
        Case("failed.json", STUDIES, TABLE, 6),
        Case("facts.json", STUDIES, TABLE, 6),
        Case("facts.json", SEARCH, r"^(show \S+|report .*|watch .*)$", 10),
        Case("result.json", TRAINING, "^(show|report|train|watch) ", 7, ["class_errors", "test_set", "dataset"]),
        Case("model.json", TRAINING, "^(predict|export) ", 4, ["classes", "dataset"]),
    ],
    ids=lambda case: f"{case.part} {case.name}",
)
def test_hostile_text_is_only_text(case: Case, made: Made) -> None:
    material, _ = made
    found = try_outputs(material, [attempt(material, case.name, case.part, *case.under)], case.only)
    assert found.defects == []
    assert found.files >= case.files


def of_control(material: Material, control: str) -> tuple[Attempt, str]:
    """What is tried without a part of the cleaning, and the commands that it is tried with."""
    if control == "HTML":
        return attempt(material, "facts.json", SEARCH, attack="html"), "^(report|watch) "
    if control in ("formulas", "TeX"):  # a failure is no cell of a table, and in TeX a comment
        attack = {"formulas": "formula", "TeX": "tex on one line"}[control]
        return next(one for one in every_attempt(material) if one.attack == attack), TABLE
    # All attacks in one text have half a character, which no file can be written with.
    attack = {"unseen characters": "tex", "Markdown": "markdown"}[control]
    return attempt(material, "failed.json", STUDIES, attack=attack), TABLE


@pytest.mark.parametrize(
    ("control", "defects"),
    [
        ("unseen characters", ["table.tex: a line that", "output: a line that"]),
        ("formulas", ["values.csv: a formula or a row of its own in CSV"]),
        ("TeX", ["table.tex: live TeX"]),
        ("Markdown", ["table.md: live Markdown"]),
        ("HTML", ["made/page.html: live HTML", "watch/page.html: live HTML", "watch/main.html: live HTML"]),
    ],
)
def test_without_cleaning_it_is_found(control: str, defects: list[str], made: Made) -> None:
    """The negative control."""
    tried, only = of_control(made[0], control)
    assert try_outputs(made[0], [tried], only).defects == []
    with without_cleaning(control):
        found = try_outputs(made[0], [tried], only)
    for defect in defects:
        assert any(defect in one for one in found.defects), found.defects


def test_every_control_is_tried() -> None:
    assert set(CONTROLS) == {"unseen characters", "formulas", "TeX", "Markdown", "HTML"}


def test_without_cleaning_escapes_are_found_in_what_is_printed(made: Made) -> None:
    """In the hardest classes, in what a model says of images, and in lists."""
    tried = [
        attempt(made[0], "result.json", TRAINING, "class_errors"),
        attempt(made[0], "model.json", TRAINING, "classes", attack="lines"),
    ]
    with without_cleaning("unseen characters"):
        found = try_outputs(made[0], tried, r"^(train|predict) (?!.*--json)")
        for what, one in list_attacks().items():
            look_at_said(what, one, found)
    wrong = "standard output: characters that are not printable"
    for what in ("train RUNS/search", "predict RUNS/training", "list methods, width none", "list methods, width 30"):
        assert any(one.startswith(what) and wrong in one for one in found.defects), (what, found.defects)
    assert not any(one.startswith("list methods --json") for one in found.defects)


def test_without_cleaning_markup_is_found_in_the_card_of_an_export(made: Made) -> None:
    tried = attempt(made[0], "model.json", TRAINING, "classes", attack="markdown")
    with without_cleaning("Markdown"):
        found = try_outputs(made[0], [tried], "^export .*--format pt2")
    assert any(".pt2.md: live Markdown" in one for one in found.defects), found.defects


def test_metadata_of_exports_is_looked_at(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: the metadata of exports was not looked at")
    for text, defects in ((r"a\x1b[31m", []), ("a\x1b[31m", [r"characters that are not printable: '\x1b'"])):
        model = onnx.helper.make_model(onnx.helper.make_graph([], "graph", [], []))
        model.metadata_props.add(key="classes", value=text)
        onnx.save(model, tmp_path / "model.onnx")
        with ZipFile(tmp_path / "model.pt2", "w") as archive:
            archive.writestr("archive/data/weights/weight_0", b"\x1b")
            archive.writestr("archive/extra/smallgroup.json", text)
        for name in ("model.onnx", "model.pt2"):
            assert list(look_at_file(tmp_path / name)) == defects
