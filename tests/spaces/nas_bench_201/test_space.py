"""NAS-Bench-201: notation, classes of equal cells, ground truth."""

import csv
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.nas_bench_201 import OPERATIONS, Cell, NasBench201Space, Truth, every_cell
from smallgroup.spaces.nas_bench_201.cell import EDGES
from smallgroup.spaces.nas_bench_201.definition import PUBLISHED

RESNET = "|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|skip_connect~0|none~1|skip_connect~2|"

needs_table = pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")


@pytest.fixture(scope="module")
def truth() -> Truth:
    found = Truth.find(Path(os.environ["SMALLGROUP_DATA"]))
    assert found is not None
    return found


def test_every_cell_is_written_and_read_back() -> None:
    texts = set()
    for cell in every_cell():
        text = str(cell)
        assert Cell.parse(text) == cell
        texts.add(text)
    assert len(texts) == 15_625


def test_the_order_of_the_notation() -> None:
    cell = Cell.parse("|none~0|+|skip_connect~0|nor_conv_1x1~1|+|nor_conv_3x3~0|avg_pool_3x3~1|none~2|")
    assert cell.operations == (*OPERATIONS, "none")
    assert str(Cell.parse(RESNET)) == RESNET
    assert Cell.parse(RESNET).skips == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "three nodes joined by"),
        ("|none~0|+|none~0|none~1|", "three nodes joined by"),
        ("|none~0|+|none~0|none~1|+|none~0|none~1|", "node 3 must be written as one operation per source 0 to 2"),
        ("|none~1|+|none~0|none~1|+|none~0|none~1|none~2|", "node 1 must be written as one operation per source"),
        ("|none~0|+|none~1|none~0|+|none~0|none~1|none~2|", "node 2 must be written"),
        ("|conv~0|+|none~0|none~1|+|none~0|none~1|none~2|", "from node 0 to node 1 must be one of none, .*'conv'"),
        ("none~0|+|none~0|none~1|+|none~0|none~1|none~2|", "node 1 must be written"),
        ("__import__('os')+1+2", "node 1 must be written"),
    ],
)
def test_what_is_no_cell_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cell.parse(text)


def test_equal_cells_form_6466_classes() -> None:
    assert len({cell.form() for cell in every_cell()}) == 6_466


def test_forms_of_cells_that_are_equal_and_of_cells_that_are_not() -> None:
    def form(*operations: str) -> object:
        return Cell(operations).form()

    none, skip, conv, pool = "none", "skip_connect", "nor_conv_3x3", "avg_pool_3x3"
    # Node 1 computes nothing, or nothing that is used: what stands behind it does not matter.
    assert form(none, none, none, conv, none, none) == form(none, none, conv, conv, conv, none)
    # Two branches from the same source, in either order.
    assert form(none, none, none, conv, none, none) != form(none, none, none, pool, none, none)
    assert form(conv, none, none, pool, skip, none) == form(pool, none, none, conv, skip, none)
    # A skip before or after an operation, on the way through node 1.
    assert form(conv, none, none, none, skip, none) == form(skip, none, none, none, conv, none)
    assert form(conv, none, none, none, conv, none) != form(conv, none, none, none, skip, none)


@needs_table
def test_the_table(truth: Truth) -> None:
    """Values that are known from elsewhere."""
    assert {"cifar10", "cifar100"} <= set(truth.columns)
    best = {name: max(values.values()) for name, values in truth.columns.items()}
    assert best["cifar10"] == pytest.approx(94.373, abs=5e-4)
    assert best["cifar100"] == pytest.approx(73.513, abs=5e-4)
    skips = Cell(("skip_connect",) * 6)
    assert truth.standing(skips, "cifar10").accuracy == pytest.approx(54.297, abs=5e-4)
    assert truth.standing(skips, "cifar10").percentile < 5
    top = max(truth.columns["cifar10"], key=lambda cell: truth.columns["cifar10"][cell])
    assert truth.standing(top, "cifar10").percentile > 99.9
    with pytest.raises(ValueError, match="column must be one of cifar10, cifar100, but got 'svhn'"):
        truth.standing(top, "svhn")


@needs_table
def test_the_published_cell_is_the_one_of_the_accuracies_in_its_papers(truth: Truth) -> None:
    text, _ = PUBLISHED["BetaDARTS_201"]
    like = [
        str(cell)
        for cell in every_cell()
        if (round(truth.standing(cell, "cifar10").accuracy, 2), round(truth.standing(cell, "cifar100").accuracy, 2))
        == (94.36, 73.51)
    ]
    assert like == [text]


def test_percentiles_are_those_of_the_classes(truth: Truth) -> None:
    """Uniform over classes, equal within one: their mean over classes is 50."""
    places = {cell.form(): truth.standing(cell, "cifar100").percentile for cell in every_cell()}
    assert sum(places.values()) / len(places) == pytest.approx(50)
    assert len(places) == 6_466
    for cell in list(every_cell())[::97]:
        assert truth.standing(cell, "cifar100").percentile == places[cell.form()]


def write(path: Path, change: Callable[[list[list[str]]], object]) -> Path:
    rows = [["architecture", "svhn"], *([str(cell), "50.0"] for cell in every_cell())]
    change(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_columns_of_other_data_work(tmp_path: Path) -> None:
    truth = Truth.read(write(tmp_path / "table.csv", lambda _: None))
    assert truth.standing(Cell.parse(RESNET), "svhn").percentile == 50


BAD: dict[str, tuple[Callable[[list[list[str]]], object], str]] = {
    "no architecture": (lambda rows: rows[0].__setitem__(0, "cell"), "must have a column 'architecture'"),
    "a cell missing": (lambda rows: rows.pop(), "must list all 15,625 cells, but"),
    "a cell twice": (lambda rows: rows.append(rows[1]), "line 15627 repeats"),
    "no number": (lambda rows: rows[1].__setitem__(1, "good"), "line 2 of .*percentage from 0 to 100, but got 'good'"),
    "no percentage": (lambda rows: rows[1].__setitem__(1, "101"), "but got '101'"),
    "no value": (lambda rows: rows[1].pop(), "but got None"),
    "no cell": (lambda rows: rows[3].__setitem__(0, "|x~0|"), "line 4 of .*three nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_table_is_refused_with_the_line(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        Truth.read(write(tmp_path / "table.csv", change))


def test_no_table_and_two_tables(tmp_path: Path) -> None:
    assert Truth.find(tmp_path) is None
    (tmp_path / "nas-bench-201").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "nas-bench-201" / name).touch()
    with pytest.raises(ValueError, match=r"one NAS-Bench-201 table must lie in .* but there are a.csv, b.csv"):
        Truth.find(tmp_path)


def test_a_table_is_read_again_when_it_is_another(tmp_path: Path) -> None:
    (tmp_path / "nas-bench-201").mkdir()
    path = write(tmp_path / "nas-bench-201" / "table.csv", lambda _: None)
    first = Truth.find(tmp_path)
    assert Truth.find(tmp_path) is first
    write(path, lambda rows: rows[1].__setitem__(1, "60.0"))
    os.utime(path, ns=(1, 1))  # of the same size, and perhaps of the same moment
    second = Truth.find(tmp_path)
    assert second is not None
    assert second.standing(next(every_cell()), "svhn").accuracy == 60


@pytest.mark.parametrize(("channels", "per_stage", "classes"), [(16, 5, 10), (8, 1, 100), (5, 2, 3)])
def test_the_supernet_has_as_many_parameters_as_its_parts(channels: int, per_stage: int, classes: int) -> None:
    """Batch norms have scale and shift everywhere but in cells, whose convolutions have a bias in their place."""
    space = NasBench201Space(channels=channels, cells_per_stage=per_stage, images=ImageSpec(classes, 3, 32))
    widths = [channels, 2 * channels, 4 * channels]
    cells = sum(per_stage * 6 * ((c * c + c) + (9 * c * c + c)) for c in widths)
    reductions = sum(9 * c * 2 * c + 2 * 2 * c + 9 * 4 * c * c + 2 * 2 * c + c * 2 * c for c in widths[:2])
    expected = 27 * channels + 2 * channels + cells + reductions + 2 * widths[2] + widths[2] * classes + classes
    assert sum(p.numel() for p in space.supernet(MixedEdge, {}).parameters()) == expected


def test_the_supernet_has_the_published_size() -> None:
    """Of the benchmark's own code at 16 channels, 5 cells per stage and 10 classes."""
    supernet = NasBench201Space().supernet(MixedEdge, {})
    assert sum(p.numel() for p in supernet.parameters()) == 1_692_826
    names = {name for name, _ in supernet.named_parameters()}
    reduction = {name.removeprefix("blocks.5.") for name in names if name.startswith("blocks.5.")}
    norms = {f"body.{stage}.2.{name}" for stage in (0, 1) for name in ("weight", "bias")}
    assert reduction == {"body.0.1.weight", "body.1.1.weight", "shortcut.1.weight"} | norms


def benchmark_habit() -> NasBench201Space:
    return NasBench201Space(derivation="benchmark")


def test_the_cell_is_the_best_operation_of_every_edge() -> None:
    """`none`, the best on one edge, is chosen by the benchmark's habit and by a rule that publishes so."""
    scores = torch.zeros(6, 5)
    for edge, best in enumerate([3, 0, 1, 4, 2, 3]):
        scores[edge, best] = 1 + edge
    scores[1, OPERATIONS.index("nor_conv_1x1")] = 0.5
    with_none = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|"
    without = with_none.replace("none~0", "nor_conv_1x1~0")
    for rule in ("top2", "pairs"):
        assert str(NasBench201Space().derive({"cell": scores}, Rule(rule))) == without
        assert str(benchmark_habit().derive({"cell": scores}, Rule(rule))) == with_none
    assert str(NasBench201Space().derive({"cell": scores}, Rule("every-edge"))) == with_none
    # With a threshold `none` stands where nothing reaches it, whatever the score of `none` is.
    assert str(NasBench201Space().derive({"cell": scores}, Rule("threshold", 0.6))) == with_none
    assert str(NasBench201Space().derive({"cell": scores}, Rule("threshold", 0.4))) == without


def test_an_edge_of_which_only_none_is_left_keeps_it() -> None:
    scores = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
    scores[2, 1:] = -torch.inf
    cell = NasBench201Space().derive({"cell": scores}, Rule("top2"))
    assert [operation == "none" for operation in cell.operations] == [False, False, True, False, False, False]


def test_a_cell_whose_output_does_not_depend_on_its_input_is_not_derived() -> None:
    """`none` is best everywhere; second best is a convolution, and nearest to the first from input to output."""
    scores = torch.zeros(6, 5)
    scores[:, OPERATIONS.index("none")] = 1.0
    scores[:, OPERATIONS.index("nor_conv_3x3")] = 0.5
    scores[EDGES.index((3, 0)), OPERATIONS.index("nor_conv_3x3")] = 0.4
    scores[EDGES.index((1, 0)), OPERATIONS.index("skip_connect")] = 0.99
    scores[EDGES.index((3, 1)), OPERATIONS.index("skip_connect")] = 0.98
    cell = benchmark_habit().derive({"cell": scores}, Rule("top2"))
    assert str(cell) == "|skip_connect~0|+|none~0|none~1|+|none~0|skip_connect~1|none~2|"
    assert cell.connected
    scores[EDGES.index((1, 0)), OPERATIONS.index("skip_connect")] = -torch.inf
    cell = benchmark_habit().derive({"cell": scores}, Rule("top2"))
    assert str(cell) == "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|skip_connect~1|none~2|"


def test_dead_operations_are_pruned_from_derived_cells_and_marked_in_others() -> None:
    """Node 1 gets no input and node 2 leads nowhere: what stands on their edges is dead."""
    text = "|none~0|+|nor_conv_3x3~0|skip_connect~1|+|nor_conv_1x1~0|avg_pool_3x3~1|none~2|"
    cell = Cell.parse(text)
    assert str(cell) == text
    assert [EDGES[edge] for edge in cell.dead] == [(2, 0), (2, 1), (3, 1)]
    assert str(cell.pruned()) == "|none~0|+|none~0|none~1|+|nor_conv_1x1~0|none~1|none~2|"
    scores = NasBench201Space().chosen(cell)
    assert benchmark_habit().derive(scores, Rule("top2")) == cell.pruned()


def test_pruning_keeps_the_function_and_leaves_nothing_dead() -> None:
    """Of all cells, with numbers in place of images and a factor in place of each operation of each edge."""
    factors = torch.rand(len(EDGES), len(OPERATIONS), generator=torch.Generator().manual_seed(0)).tolist()

    def value(cell: Cell) -> float:
        nodes = [1.0, 0.0, 0.0, 0.0]
        for edge, ((node, source), operation) in enumerate(zip(EDGES, cell.operations, strict=True)):
            if operation != "none":
                nodes[node] += factors[edge][OPERATIONS.index(operation)] * nodes[source]
        return nodes[3]

    dead = 0
    for cell in every_cell():
        pruned = cell.pruned()
        dead += cell != pruned
        assert not pruned.dead
        assert value(pruned) == value(cell)
        for edge, operation in enumerate(pruned.operations):
            fewer = Cell((*pruned.operations[:edge], "none", *pruned.operations[edge + 1 :]))
            assert operation == "none" or value(fewer) != value(cell)
    # Cells without dead operations, counted by which of the nodes 1 and 2 are used: neither, one, the other, both
    # without and both with the edge between them; the edge from input to output is free.
    assert 15_625 - dead == 5 * (1 + 4**2 + 4**2 + 4**4 + 4**3 * 5**2)


def test_a_threshold_removes_edges_unless_it_cuts_the_cell_in_two() -> None:
    scores = torch.full((6, 5), 0.1)
    scores[:, 3] = torch.tensor([0.9, 0.2, 0.9, 0.2, 0.2, 0.9])
    derive = NasBench201Space().derive
    text = "|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|none~0|none~1|nor_conv_3x3~2|"
    assert str(derive({"cell": scores}, Rule("threshold", 0.85))) == text
    scores[5, 3] = 0.8
    assert derive({"cell": scores}, Rule("threshold", 0.85)).operations == ("nor_conv_3x3",) * 6


def test_a_cell_is_connected_if_something_gets_through() -> None:
    disconnected = [cell for cell in every_cell() if not cell.connected]
    assert len(disconnected) == 341
    assert Cell(("none",) * 6) in disconnected


@pytest.mark.parametrize(
    "content", [b"architecture,cifar10\n\xff\xfe,1\n", b"architecture," + b"x" * 200_000 + b"\n1,2\n"]
)
def test_a_table_that_is_no_csv_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table\.csv must be a CSV file in UTF-8"):
        Truth.read(path)


def test_a_table_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = ["architecture,mine", *(f"{cell},{i % 100}" for i, cell in enumerate(every_cell()))]
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    assert Truth.read(path).standing(next(every_cell()), "mine").accuracy == 0
