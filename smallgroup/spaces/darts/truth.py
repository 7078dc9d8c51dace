"""A surrogate of NAS-Bench-301: predicted accuracies of cells of the DARTS space, from files under the data root.

No table can cover the 10^18 cells of this space. The surrogate is a network that was fitted to the trainings of the
benchmark. It never influences a search: it is looked at when a search is over, or to draw its course.

It separates good from bad cells on average over many searches, and cannot name a winner: its Spearman correlation with
214 cells that were really trained is 0.52. It does not see a collapse to skip connections, so skips are counted beside
it.
"""

import importlib
import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from smallgroup.runtime.files import read_regular
from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.darts.names import OPERATIONS
from smallgroup.spaces.ground_truth import GroundTruth, Known, Standing

COLUMN = "nas-bench-301"
"""The name of the surrogate's folder, and of its numbers in metrics and results."""
SPEARMAN = 0.52
"""Its rank correlation with the best test accuracy of 214 trained cells (0.51 with the last one): it belongs to every
number that is shown."""
SAMPLE = 3_000
"""Random cells that a percentile counts."""
LARGEST_MODEL, LARGEST_ENCODING = 50_000_000, 1_000_000
"""Bytes; the published files have 2.6 million and 7 thousand."""
MOST_CODES = 100
"""Values of one input; a node has at most ten pairs of sources."""

_MODEL, _ENCODING = "surrogate.onnx", "encoding.json"
_PREFIX = "NetworkSelectorDatasetInfo_COLON_darts_COLON_"
_CELLS, _NODES, _EDGES = ("normal", "reduce"), 4, 14
_INPUTS = (
    *(f"edge_{cell}_{edge}" for cell in _CELLS for edge in range(_EDGES)),
    *(f"inputs_node_{cell}_{node}" for cell in _CELLS for node in (3, 4, 5)),
)
"""The categorical inputs, in their order."""
_UNUSED = "#na#"
_END = 98
"""The epoch that stands for the end of a training."""


@dataclass(frozen=True)
class SurrogatePrediction:
    """A prediction of the surrogate for a cell."""

    accuracy: float
    """Predicted validation accuracy on CIFAR-10 in percent."""
    percentile: float
    """How many of 3,000 random cells, always the same, have a lower prediction, in percent; ties count half."""


class Surrogate(GroundTruth):
    """Predictions for every cell of four nodes with two edges each from different nodes."""

    name: ClassVar[str] = COLUMN
    space: ClassVar[str] = "darts"
    about: ClassVar[str] = "predicted accuracies of cells of the DARTS space"
    caveat: ClassVar[str | None] = (
        f"a prediction, whose Spearman correlation with 214 trained cells is {SPEARMAN}; it does not see skips"
    )
    columns = (COLUMN,)  # its own name: a prediction is for no dataset that a search can have
    compared_with: ClassVar[str] = f"{SAMPLE:,} random cells"

    def __init__(self, session: Any, codes: Mapping[str, Mapping[str, int]]) -> None:  # noqa: ANN401 -- untyped
        self._session, self._codes = session, codes

    @classmethod
    def find(cls, root: Path) -> "Surrogate | None":
        """Return the surrogate under a data root, `nas-bench-301`; None without it, or without onnxruntime."""
        files = [root / COLUMN / name for name in (_MODEL, _ENCODING)]
        if not all(file.is_file() for file in files) or not can_run():
            return None
        return _kept(*files, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files))

    @staticmethod
    def read(model: Path, encoding: Path) -> "Surrogate":
        """Read an ONNX file of which nothing but inputs, outputs and numbers is believed, and its encoding."""
        codes = _read_codes(encoding)
        content = read_regular(model, LARGEST_MODEL, links=True)
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # a damaged file is an error, which is raised; the rest is no concern of a user
        try:  # from bytes: a model in memory has no folder from which it could refer to other files
            session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            inputs = {each.name: list(each.shape) for each in session.get_inputs()}
        except Exception as error:  # the runtime's errors have no common class
            raise ValueError(f"{model} must be an ONNX model, but it cannot be read: {str(error)[:200]}") from None
        if inputs != {"x_cat": [1, len(_INPUTS)], "x_cont": [1, 1]}:
            raise ValueError(
                f"{model} must have the inputs x_cat [1, 34] and x_cont [1, 1], but has {str(inputs)[:200]}"
            )
        return Surrogate(session, codes)

    def predict(self, genotype: DartsGenotype) -> float | None:
        """Return the accuracy in percent; None for a cell that the benchmark does not have."""
        values = _categories(genotype)
        if values is None or any(value not in self._codes[name] for name, value in values.items()):
            return None
        row = np.array([[self._codes[name][values.get(name, _UNUSED)] for name in _INPUTS]], dtype=np.int32)
        try:
            output = np.asarray(self._session.run(None, {"x_cat": row, "x_cont": np.array([[_END]], np.float32)})[0])
        except Exception as error:  # the runtime's errors have no common class
            raise ValueError(f"the surrogate of {COLUMN} cannot be computed: {str(error)[:200]}") from None
        accuracy = float(output.flat[0]) if output.size else math.nan
        if not 0 <= accuracy <= 100:
            raise ValueError(f"the surrogate of {COLUMN} must predict 0 to 100 percent, but predicts {accuracy}")
        return accuracy

    def known(self, genotype: DartsGenotype) -> Known:
        """Return the predicted accuracy of a cell and its percentile."""
        predicted = self.prediction(genotype)
        if predicted is None:
            return {}
        return {"true_accuracy": {COLUMN: predicted.accuracy}, "percentile": {COLUMN: predicted.percentile}}

    def standing(self, genotype: DartsGenotype, column: str) -> Standing:
        """Return prediction and percentile of a cell that the benchmark has."""
        predicted = self.prediction(genotype) if column == COLUMN else None
        if predicted is None:
            raise ValueError(f"{COLUMN} must know a cell to rank it in column {column}, but it does not")
        return Standing(predicted.accuracy, predicted.percentile)

    def accuracy(self, genotype: DartsGenotype, column: str) -> float:
        """Return the prediction for a cell that the benchmark has."""
        predicted = self.predict(genotype) if column == COLUMN else None
        if predicted is None:
            raise ValueError(f"{COLUMN} must know a cell to look it up in column {column}, but it does not")
        return predicted

    @classmethod
    def missing(cls, where: Path) -> str:
        """Say what is missing: the files, or what computes them."""
        install = "it needs onnxruntime: pip install 'smallgroup[onnx]'"
        return f"the surrogate is not in {where}" if can_run() else install

    def prediction(self, genotype: DartsGenotype) -> SurrogatePrediction | None:
        """Return prediction and percentile; None for a cell that the benchmark does not have."""
        accuracy = self.predict(genotype)
        if accuracy is None:
            return None
        below, upto = bisect_left(self._ranked, accuracy), bisect_right(self._ranked, accuracy)
        return SurrogatePrediction(accuracy, 100 * (below + upto) / 2 / len(self._ranked))

    @cached_property
    def _ranked(self) -> list[float]:
        """Predictions for the sample, rising: about two seconds, once per process."""
        found = [self.predict(genotype) for genotype in sample()]
        return sorted(accuracy for accuracy in found if accuracy is not None)


def can_run() -> bool:
    """Return whether onnxruntime is installed, which the extra `onnx` brings."""
    try:
        importlib.import_module("onnxruntime")
    except ImportError:
        return False
    return True


def sample(count: int = SAMPLE) -> Iterator[DartsGenotype]:
    """Draw random cells, the same at every call: two sources per node and an operation on each, all equally likely."""
    import torch  # noqa: PLC0415 -- pages that name the surrogate need none

    from smallgroup.runtime import stream  # noqa: PLC0415

    generator, chosen = stream(COLUMN, "sample"), OPERATIONS[1:]  # without `none`
    pairs = [list(combinations(range(node), 2)) for node in range(INPUTS, INPUTS + _NODES)]
    shape = (count, len(_CELLS))
    sources = [torch.randint(len(own), shape, generator=generator).tolist() for own in pairs]
    names = torch.randint(len(chosen), (*shape, _NODES, 2), generator=generator).tolist()
    for number in range(count):
        cells = []
        for cell in range(len(_CELLS)):
            edges = (
                zip(names[number][cell][node], own[sources[node][number][cell]], strict=True)
                for node, own in enumerate(pairs)
            )
            nodes = tuple(tuple(Edge(chosen[name], source) for name, source in own) for own in edges)
            cells.append(CellGenotype(nodes, tuple(range(INPUTS, INPUTS + _NODES))))
        yield DartsGenotype(*cells)


@lru_cache(maxsize=1)
def _kept(model: Path, encoding: Path, stamps: tuple[tuple[int, int], ...]) -> Surrogate:  # noqa: ARG001
    """Read once per process, and again when a file is another."""
    return Surrogate.read(model, encoding)


def _categories(genotype: DartsGenotype) -> dict[str, str] | None:
    """Return the values of the inputs that are used, by name; None where a cell is none of the benchmark's."""
    values: dict[str, str] = {}
    for name, cell in (("normal", genotype.normal), ("reduce", genotype.reduce)):
        own = _of_cell(name, cell)
        if own is None:
            return None
        values |= own
    return values


def _of_cell(name: str, cell: CellGenotype) -> dict[str, str] | None:
    if len(cell.nodes) != _NODES or sorted(cell.concat) != list(range(INPUTS, INPUTS + _NODES)):
        return None
    values: dict[str, str] = {}
    first = 0  # the number of a node's first edge: edges are numbered by node, then by source
    for node, edges in enumerate(cell.nodes, start=INPUTS):
        sources = sorted({edge.source for edge in edges})
        if len(edges) != 2 or len(sources) != 2:
            return None
        values |= {f"edge_{name}_{first + edge.source}": edge.operation for edge in edges}
        if node > INPUTS:
            values[f"inputs_node_{name}_{node}"] = f"{sources[0]}_{sources[1]}"
        first += node
    return values


def _read_codes(path: Path) -> dict[str, dict[str, int]]:
    """Return the integers of each input's values, by its name without the prefix."""
    try:
        plain = json.loads(read_regular(path, LARGEST_ENCODING, links=True))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, but it cannot be read: {str(error)[:200]}") from None
    if not isinstance(plain, dict):
        raise ValueError(f"{path} must map the names of inputs to their values, but it is a {type(plain).__name__}")
    found = {}
    for name in _INPUTS:
        codes = plain.get(_PREFIX + name)
        if not isinstance(codes, dict) or not all(
            type(code) is int and 0 <= code < MOST_CODES for code in codes.values()
        ):
            raise ValueError(f"{path} must map the values of {_PREFIX}{name} to numbers from 0 to {MOST_CODES - 1}")
        if _UNUSED not in codes:
            raise ValueError(f"{path} must have a number for {_UNUSED} in {_PREFIX}{name}, but has none")
        found[name] = codes
    return found
