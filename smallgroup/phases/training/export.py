"""A trained model as one file for other programs: ONNX, or what torch.export saves.

Either takes `images`, float32 [batch, channels, size, size] with any batch, normalised as the file says, and gives
`logits` [batch, classes]. What a user of the file has to know stands inside it: in ONNX as metadata whose values are
JSON, in pt2 as the extra file `smallgroup.json`.

A pt2 file as it is written here has no pickle in it: weights as bytes and everything else as JSON. That is so of ours
alone: `torch.export.load` unpickles whatever a file asks it to, so load those of strangers as ONNX, or not at all.
"""

import copy
import importlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from smallgroup import __version__
from smallgroup.data.errors import require_folder
from smallgroup.phases.training.card import write_card
from smallgroup.phases.training.model import TrainedModel, read_model
from smallgroup.phases.training.place import find_model
from smallgroup.phases.training.result import TrainResult
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.text import shown
from smallgroup.spaces.genotypes import to_plain
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.outputs import Outputs

FORMATS = ("onnx", "pt2")
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
"""What ONNX needs: the extra `onnx`."""
EXTRA = "smallgroup.json"

TOLERANCE = 1e-4
"""How far logits may be off, as a part of the largest logit.

Another runtime adds in another order, and a batch norm may have become part of the convolution before it. Each costs a
few units of float32 (6e-8), and some hundred layers one after the other some 1e-6 or 1e-5. A wrong operation, a lost
weight or a swapped axis costs a part of the logits one can see, above 1e-3. The limit is between.
"""
FLOOR = 1e-6
"""How far they may be off where all logits are next to zero."""
BATCHES = (1, 3)
"""Images of the batches that are compared; one alone is where exporters take a dimension for a constant."""

Runs = Callable[[Tensor], Tensor]


class MissingExtraError(ImportError):
    """Packages that are no part of the plain installation are needed."""


class ParityError(ArithmeticError):
    """An export does not give what the trained model gives; nothing was written."""


@dataclass(frozen=True)
class Exported:
    """Where an export is, and how far it agrees with the trained model."""

    path: Path
    card: Path
    format: str
    difference: float
    """The largest absolute difference of a logit, on random images."""
    tolerance: float
    """The largest that would have been accepted."""

    def to_dict(self) -> dict[str, Any]:
        """As the command prints it."""
        return {**vars(self), "path": str(self.path), "card": str(self.card)}


def export_model(run: str | Path, format: str = "onnx", out: str | Path | None = None) -> Exported:
    """Export the trained model of a run; without `out`, as `model.onnx` or `model.pt2` beside it.

    The file is compared with the trained model before it is written, and either is written whole or not at all. A
    short model card goes beside it.
    """
    check_choice("format", format, FORMATS)
    folder = find_model(run)
    path = folder / f"model.{format}" if out is None else Path(out)
    if path.suffix != f".{format}":
        raise ValueError(f"a file for format {format} must end in .{format}, but got {shown(path)}")
    require_folder(path.parent, "the place of an export")
    if format == "onnx":
        _require_onnx()
    network, model = read_model(folder)
    program = _program(network, model)
    content = _onnx(program, model) if format == "onnx" else _pt2(program, model)
    difference, tolerance = check_parity(network, model, _run_onnx(content) if format == "onnx" else _run_pt2(content))
    card = path.with_name(path.name + ".md")
    write_whole(path, content)
    try:
        write_card(card, path.name, network, model, result=TrainResult.read(folder), difference=difference)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Exported(path, card, format, difference, tolerance)


def about(model: TrainedModel) -> dict[str, Any]:
    """What stands inside an export."""
    return {
        "producer": f"smallgroup {__version__}",
        "dataset": model.dataset,
        "classes": list(model.classes),
        "image_size": model.design.images.size,
        "image_channels": model.design.images.channels,
        "mean": list(model.mean),
        "std": list(model.std),
        "margin": model.margin,
        "input": "images: (pixels / 255 - mean) / std per channel, of the centred square whose side is the short side "
        "of the image divided by margin, brought to image_size",
        "output": "logits: one number per class, in the order of classes; their softmax are probabilities",
        "space": model.genotype.space,
        "genotype": to_plain(model.genotype),
    }


def check_parity(network: DerivedNetwork, model: TrainedModel, exported: Runs) -> tuple[float, float]:
    """The largest absolute difference of the logits on random images, and the tolerance; an error if it is above."""
    differences, sizes = [], []
    for count in BATCHES:
        images = torch.randn(count, *model.design.images.shape, generator=stream("export", count))
        with torch.no_grad():
            expected, found = Outputs.of(network(images)).logits, exported(images)
        if found.shape != expected.shape:
            raise ParityError(
                f"the export must give logits of shape {tuple(expected.shape)}, but gives {tuple(found.shape)}; "
                "nothing was written"
            )
        differences.append((found - expected).abs().max())
        sizes.append(expected.abs().max())
    difference, largest = (float(torch.stack(each).max()) for each in (differences, sizes))  # NaN stays NaN
    tolerance = max(TOLERANCE * largest, FLOOR)
    if not difference <= tolerance:  # also where one of them is no number
        raise ParityError(
            f"the export must give the logits of the trained model up to {tolerance:.1e}, but they are "
            f"{difference:.1e} apart; nothing was written"
        )
    return difference, tolerance


def _program(network: DerivedNetwork, model: TrainedModel) -> ExportedProgram:
    size, channels = model.design.images.size, model.design.images.channels
    # The archive of a pt2 file wants weights that are whole in memory, in the order of their dimensions.
    plain = copy.deepcopy(network).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    images = torch.zeros(2, channels, size, size)  # two: torch takes a dimension of one for a constant
    program = torch.export.export(plain, (images,), dynamic_shapes=({0: Dim("batch", min=1)},))
    for node in program.graph.nodes:
        # Where on this machine a line of code stands is nobody's business who gets the file.
        node.meta.pop("stack_trace", None)
    return program


def _pt2(program: ExportedProgram, model: TrainedModel) -> bytes:
    program.example_inputs = None  # would be pickled
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={EXTRA: json.dumps(about(model))})
    return file.getvalue()


def _run_pt2(content: bytes) -> Runs:
    loaded: Runs = torch.export.load(io.BytesIO(content)).module()
    return loaded


def _onnx(program: ExportedProgram, model: TrainedModel) -> bytes:
    with _quiet():
        made = torch.onnx.export(
            program, dynamo=True, verbose=False, external_data=False, input_names=["images"], output_names=["logits"]
        )
    assert made is not None
    proto = made.model_proto
    graph = proto.graph
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]  # notes of the exporter to itself
    del graph.value_info[:]  # shapes in between, which every reader infers
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del proto.metadata_props[:]
    for key, entry in about(model).items():
        proto.metadata_props.add(key=key, value=json.dumps(entry))
    importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString())


def _run_onnx(content: bytes) -> Runs:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])


def _require_onnx() -> None:
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            raise MissingExtraError(
                f"an export as ONNX needs the package {name}, which is not installed: pip install 'smallgroup[onnx]'"
            ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without two things the exporter of torch says of itself: a class it should not use, a package it does without."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")

    def heard(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("torchvision is not installed")

    logger.addFilter(heard)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
            yield
    finally:
        logger.removeFilter(heard)
