"""Genotypes as files and by name: there and back, and every defect said in a sentence."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smallgroup.runtime.checks import unmarked
from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge, notation
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.genotypes import (
    Origin,
    dumps,
    from_plain,
    loads,
    published_about,
    read,
    resolve,
    to_plain,
    write,
)
from smallgroup.spaces.genotypes import published as every_published
from smallgroup.spaces.nas_bench_201 import Cell, every_cell

DARTS_V2 = published()["DARTS_V2"]
CELL = Cell.parse("|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|skip_connect~0|none~1|skip_connect~2|")
ORIGIN = Origin("pc-darts", "cifar100", 3)
ODD = DartsGenotype(
    CellGenotype(((Edge("skip_connect", 1),), (), tuple(Edge("sep_conv_5x5", s) for s in (0, 1, 2)), ()), (2, 4)),
    DARTS_V2.reduce,
)
"""Nodes of one, no and three edges."""


def flat(genotype: DartsGenotype) -> dict[str, Any]:
    """The form of papers, put together here."""
    return {
        "normal": [[edge.operation, edge.source] for edges in genotype.normal.nodes for edge in edges],
        "normal_concat": list(genotype.normal.concat),
        "reduce": [[edge.operation, edge.source] for edges in genotype.reduce.nodes for edge in edges],
        "reduce_concat": list(genotype.reduce.concat),
    }


@pytest.mark.parametrize("genotype", [*published().values(), ODD, CELL])
def test_there_and_back(genotype: DartsGenotype | Cell, tmp_path: Path) -> None:
    assert loads(dumps(genotype, ORIGIN)) == (genotype, ORIGIN)
    assert loads(dumps(genotype)) == (genotype, Origin())
    assert from_plain(genotype.space, json.loads(json.dumps(to_plain(genotype)))) == genotype
    write(tmp_path / "genotype.json", genotype, ORIGIN)
    assert read(tmp_path / "genotype.json") == (genotype, ORIGIN)
    assert os.listdir(tmp_path) == ["genotype.json"]


def test_the_form_of_a_file() -> None:
    """What others rely on; a change of it needs another schema number."""
    document = json.loads(dumps(DARTS_V2, ORIGIN))
    assert list(document) == ["schema", "space", "method", "dataset", "seed", "genotype"]
    assert [document[key] for key in list(document)[:5]] == [1, "darts", "pc-darts", "cifar100", 3]
    assert document["genotype"]["normal"]["nodes"][0] == [["sep_conv_3x3", 0], ["sep_conv_3x3", 1]]
    assert document["genotype"]["reduce"]["concat"] == [2, 3, 4, 5]
    assert json.loads(dumps(CELL))["genotype"] == str(CELL)
    assert json.loads(dumps(CELL))["space"] == "nas-bench-201"


def test_forms_without_an_origin() -> None:
    assert loads(json.dumps(flat(DARTS_V2))) == (DARTS_V2, Origin())
    assert loads(json.dumps(to_plain(DARTS_V2))) == (DARTS_V2, Origin())
    assert loads(json.dumps({"schema": 1, "space": "darts", "genotype": flat(DARTS_V2)})) == (DARTS_V2, Origin())


def test_published_genotypes() -> None:
    assert len(published()) == 37
    assert len(every_published()) == 41
    assert list(published_about()) == list(every_published())
    assert all(published_about().values())
    first = published()["PCDARTS_cifar"].normal
    assert first.nodes[0] == (Edge("sep_conv_3x3", 1), Edge("skip_connect", 0))
    assert published()["NASNet_A"].reduce.concat == (4, 5, 6)
    published().clear()
    assert len(published()) == 37


def record() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(dumps(DARTS_V2, ORIGIN))
    return document


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


NODES = ("genotype", "normal", "nodes")
DEFECTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "newer": (_set("schema", value=2), "schema of a genotype file must be 1, the one this version reads, but got 2"),
    "schema bool": (_set("schema", value=True), "schema of a genotype file must be a whole number, but got True"),
    "schema float": (_set("schema", value=1.0), "must be a whole number, but got 1.0"),
    "no schema": (lambda d: d.pop("schema"), "must have the keys schema, space, genotype, but schema is missing"),
    "no space": (lambda d: d.pop("space"), "but space is missing"),
    "no genotype": (lambda d: d.pop("genotype"), "but genotype is missing"),
    "unknown key": (_set("color", value=1), "only, but has 'color'"),
    "unknown space": (_set("space", value="nasnet"), "space must be one of darts, nas-bench-201, .*, but got 'nasnet'"),
    "space a list": (_set("space", value=["darts"]), "space must be one of .* but got a list of 1"),
    "wrong space": (_set("space", value="nas-bench-201"), "nas-bench-201 must be a text, but got an object"),
    "method": (_set("method", value=1), "method of a genotype file must be a text or null, but got 1"),
    "dataset": (_set("dataset", value={}), "dataset of a genotype file must be a text or null, but got an object"),
    "seed": (_set("seed", value="0"), "seed of a genotype file must be a whole number, but got '0'"),
    "genotype null": (_set("genotype", value=None), "must be an object with the keys normal, reduce, but got None"),
    "no reduce": (lambda d: d["genotype"].pop("reduce"), "but reduce is missing"),
    "a cell more": (_set("genotype", "extra", value=1), "only, but has 'extra'"),
    "cell a list": (_set("genotype", "normal", value=[]), "the normal cell must be an object .* but got a list of 0"),
    "nodes a text": (_set(*NODES, value="x"), "nodes of the normal cell must be a list, but got 'x'"),
    "node a number": (_set(*NODES, 1, value=5), "node 3 of the normal cell must be a list, but got 5"),
    "three nodes": (lambda d: d["genotype"]["normal"]["nodes"].pop(), "must have 4 nodes .* but it has 3"),
    "no nodes": (_set(*NODES, value=[]), "must have 4 nodes .* but it has 0"),
    "edge of three": (_set(*NODES, 0, 0, value=["skip_connect", 0, 1]), "pair of operation and source"),
    "edge a text": (_set(*NODES, 0, 0, value="ab"), "pair of operation and source, but got 'ab'"),
    "operation a number": (_set(*NODES, 0, 0, value=[1, 1]), "pair of operation and source"),
    "operation unknown": (_set(*NODES, 0, 0, 0, value="conv"), "node 2 of the normal cell has an unknown operation"),
    "operation none": (_set(*NODES, 0, 0, 0, value="none"), "unknown operation 'none'"),
    "source bool": (_set(*NODES, 0, 0, 1, value=True), "source of 'sep_conv_3x3' in node 2 .* but got True"),
    "source float": (_set(*NODES, 0, 0, 1, value=0.0), "must be a whole number, but got 0.0"),
    "source NaN": (_set(*NODES, 0, 0, 1, value=float("nan")), "must be a whole number, but got nan"),
    "source negative": (_set(*NODES, 0, 0, 1, value=-1), "takes its input from node -1, which is not there"),
    "source huge": (_set(*NODES, 0, 0, 1, value=10**30), "at most 18 digits, but one has 31"),
    "cycle": (_set(*NODES, 0, 0, 1, value=4), "has a cycle: node 2 takes its input from node 4"),
    "itself": (_set(*NODES, 0, 0, 1, value=2), "has a cycle"),
    "empty node": (_set(*NODES, 2, value=[]), "node 4 of the normal cell is empty"),
    "concat a number": (_set("genotype", "normal", "concat", value=2), "concat of the normal cell must be a list"),
    "concat of texts": (_set("genotype", "normal", "concat", value=["2"]), "a node in concat .* but got '2'"),
    "concat of an input": (
        _set("genotype", "normal", "concat", value=[1, 2]),
        "nodes 2 to 5, but it names 1",
    ),
    "concat empty": (_set("genotype", "normal", "concat", value=[]), "its concat is empty"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_of_a_file(name: str, tmp_path: Path) -> None:
    change, message = DEFECTS[name]
    document = record()
    change(document)
    path = tmp_path / "file.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        loads(path.read_text())
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be JSON, but line 1 is not"),
        (b"{", "must be JSON, but line 1 is not"),
        (b"[]", "a genotype file must be an object with the keys schema, space, genotype, but got a list of 0"),
        (b"null", "must be an object .* but got None"),
        (b"\xff\xfe{}", "must be UTF-8 text, but byte 0 is not"),
        (b"{" + b" " * 100_000 + b"}", "at most 100,000 bytes"),
        (b"[" * 90_000, "not have deeply nested brackets"),
        (b'{"a":' * 10_000, "not have deeply nested brackets"),
        (b'{"schema": 1, "schema": 1}', "every key once"),
        (b'{"schema": ' + b"1" * 5_000 + b"}", "at most 18 digits"),
        (b'{"schema": 1, "space": "darts", "genotype": "\\ud800"}', "but got '.ud800'"),
        (b"hello", "must be JSON"),
        (b"|none~0|", "three nodes joined by"),
        (b"import os; os.remove('x')", "but has ';'"),
        (b"\0", "must be JSON"),
    ],
)
def test_files_that_hold_something_else(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert type(caught.value) is ValueError
    assert str(caught.value).startswith(str(path))


def test_long_texts_and_papers_form_of_odd_length() -> None:
    with pytest.raises(ValueError, match="at most 100,000 characters, but got 200,000"):
        loads("[" * 200_000)
    lists = flat(DARTS_V2)
    lists["reduce"].pop()
    with pytest.raises(ValueError, match="the reduce cell must list two edges per node, but it lists 7"):
        loads(json.dumps(lists))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "genotype.json"
    write(path, DARTS_V2)

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(path, CELL)
    assert read(path)[0] == DARTS_V2
    assert os.listdir(tmp_path) == ["genotype.json"]


def test_what_a_user_may_mean(tmp_path: Path) -> None:
    text = notation.to_text(DARTS_V2)
    (tmp_path / "cell.txt").write_text(f"\ufeffMINE = {text}\n", encoding="utf-8")
    (tmp_path / "benchmark.txt").write_text(f"{CELL}\n")
    write(tmp_path / "genotype.json", DARTS_V2)
    for path in (tmp_path / "cell.txt", tmp_path / "genotype.json", tmp_path):
        assert resolve(str(path)) == (str(path), DARTS_V2)
    assert resolve(str(tmp_path / "benchmark.txt"))[1] == CELL
    assert resolve("DARTS_V2") == ("DARTS_V2", DARTS_V2)
    assert resolve(" darts_v2 ") == ("DARTS_V2", DARTS_V2)
    assert resolve("DARTS-/cifar10_s0_3")[0] == "DARTS-/cifar10_s0_3"
    assert resolve("pcdarts-cifar")[0] == "PCDARTS_cifar"
    assert len({unmarked(name) for name in every_published()}) == len(every_published())
    assert resolve(f"MINE = {text}") == ("MINE", DARTS_V2)
    assert resolve(text) == ("genotype", DARTS_V2)
    assert resolve(dumps(DARTS_V2)) == ("genotype", DARTS_V2)
    assert resolve(json.dumps(flat(DARTS_V2))) == ("genotype", DARTS_V2)
    assert resolve(str(CELL)) == (str(CELL), CELL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DARTS_V3", "'DARTS_V3' is not a published genotype, a file, .* did you mean DARTS_V2?"),
        ("pcdarts-cifer", "did you mean PCDARTS_cifar?"),
        ("nowhere/at/all.json", "`smallgroup list genotypes` lists the published ones"),
        ("", "'' is not a published genotype"),
        ("x" * 100_000, "is not a published genotype"),
        ("a\0b", "is not a published genotype"),
        ("{", "must be JSON"),
        ("|", "three nodes"),
        ("f(x)", "written like Genotype"),
    ],
)
def test_what_nobody_can_mean(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        resolve(text)
    assert len(str(caught.value)) < 400


def test_a_folder_without_a_genotype(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"genotype\.json"):
        resolve(str(tmp_path))


def mutate(draw: random.Random, data: Any) -> Any:
    """Put something strange in some place of a document."""
    strange: tuple[Any, ...] = (
        None,
        True,
        -1,
        7,
        1.5,
        "",
        "none",
        "skip_connect",
        [],
        {},
        [[]],
        [["skip_connect", 0]],
        10**18,
    )
    if draw.random() < 0.2 or not isinstance(data, list | dict) or not data:
        return draw.choice(strange)
    if isinstance(data, dict):
        key = draw.choice(list(data))
        if draw.random() < 0.1:
            return {other: value for other, value in data.items() if other != key}
        return {**data, key: mutate(draw, data[key])}
    place = draw.randrange(len(data))
    kept = 0 if draw.random() < 0.1 else 1
    return data[:place] + [mutate(draw, data[place])] * kept + data[place + 1 :]


def test_damaged_documents_and_bytes_give_value_errors_only() -> None:
    draw = random.Random(2)
    originals = [record(), flat(DARTS_V2), json.loads(dumps(CELL, ORIGIN)), json.loads(dumps(ODD))]
    refused = 0
    for _ in range(3_000):
        data = mutate(draw, draw.choice(originals))
        text = json.dumps(data)
        if draw.random() < 0.3:
            letters = list(text)
            for _ in range(draw.randint(1, 3)):
                letters[draw.randrange(len(letters))] = draw.choice('{}[]",:\\0-eNI \0é\ud800')
            text = "".join(letters)
        try:
            loads(text)
        except ValueError as error:
            assert type(error) is ValueError  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
    assert 2_000 < refused < 3_000


def test_every_cell_of_the_benchmark_resolves() -> None:
    for cell in list(every_cell())[::501]:
        assert resolve(str(cell))[1] == cell


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="must be a regular file, but it is a pipe"):
        read(tmp_path / "pipe")
