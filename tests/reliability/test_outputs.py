"""The small form of `python -m smallgroup.testing.fuzz.outputs`, and proof that it would notice."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed: hostile output was not looked for")

from smallgroup.testing.fuzz.outputs import Attempt, Findings, Material, make_material, try_outputs, without_cleaning
from smallgroup.testing.fuzz.outputs.attempts import look_at_said, places_of
from smallgroup.testing.fuzz.outputs.material import SEARCH, STUDIES, TRAINING, Said
from smallgroup.testing.fuzz.outputs.places import KEY

Made = tuple[Material, dict[str, Said]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A search, a training and a study of images with hostile names, and what the commands said."""
    return make_material(tmp_path_factory.mktemp("made"))


def attempts(material: Material, name: str, part: str, *under: str) -> list[Attempt]:
    """All texts of a file, or those under some keys, in a part of the folder."""
    file = next(path for path in material.files() if path.name == name and path.parts[0] == part)
    places = [place for place in places_of(material, file) if not under or set(under) & set(map(str, place))]
    if not under:
        places = [place for place in places if KEY not in place]
    return [Attempt(file, tuple(place for place in places if place[-1] not in under), "")]


def test_hostile_text_is_only_text(made: Made) -> None:
    material, said = made
    begun = Findings()
    for what, one in said.items():
        look_at_said(what, one, begun)
    assert begun.defects == []
    assert any("hardest classes: " in one.out and r"\x1b[31m" in one.out for one in said.values())
    found = try_outputs(
        material,
        [
            *attempts(material, "failed.json", STUDIES),
            *attempts(material, "facts.json", STUDIES),
            *attempts(material, "facts.json", SEARCH),
            *attempts(material, "result.json", TRAINING, "class_errors", "test_set", "dataset"),
        ],
        only=r"^(study \S+ --out \S+|show \S+|report .*|train .*|the model card)$",
    )
    assert found.defects == []
    assert found.files > 10
    assert found.refused < found.commands / 2


@pytest.mark.parametrize(
    ("control", "name", "part", "defects"),
    [
        (
            "unseen characters",
            "failed.json",
            STUDIES,
            ["table.tex: a line that", "output: a line that"],
        ),
        ("unseen characters", "result.json", TRAINING, ["standard output: characters that are not printable"]),
        ("formulas", "study.yaml", "study.yaml", ["a formula or a row of its own in CSV"]),
    ],
)
def test_without_cleaning_it_is_found(control: str, name: str, part: str, defects: list[str], made: Made) -> None:
    """The negative control: a line of its own in TeX, an escape character in the hardest classes, a formula."""
    material, _ = made
    if name == "study.yaml":
        tried = [Attempt(Path(name), (("rows", 0, "name"), ("claims", 0, "row")), "formula")]
    else:
        tried = attempts(material, name, part, *(["class_errors"] if part == TRAINING else ()))
        # All attacks in one text have half a character, which no file can be written with.
        tried = [replace(one, attack="tex") if name == "failed.json" else one for one in tried]
    with without_cleaning(control):
        found = try_outputs(material, tried, only=r"^study \S+ --out \S+$|^train")
    for defect in defects:
        assert any(defect in one for one in found.defects), found.defects
