"""ONNX, by the exporter of torch."""

import importlib
import json
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from smallgroup.exporters.exporter import Exporter, Forward, MissingExtraError
from smallgroup.exporters.latency import latencies_of
from smallgroup.exporters.onnx_int8 import quantized
from smallgroup.exporters.program import about, program_of
from smallgroup.phases.training.model import TrainedModel
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.network import DerivedNetwork

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
"""What ONNX needs: the extra `onnx`."""
SCRIPT = Path(__file__).with_name("predict_onnx.py")
"""What is written beside a file: it is not imported here."""


class Onnx(Exporter):
    """ONNX, for most runtimes; its metadata, JSON values, describes the model. Needs the extra onnx."""

    name = "onnx"

    def require(self) -> None:
        """Refuse if onnx or onnxruntime is not installed."""
        for name in PACKAGES:
            try:
                importlib.import_module(name)
            except ImportError:
                raise MissingExtraError(
                    f"an export as ONNX needs the package {name}, which is not installed: pip install "
                    "'smallgroup[onnx]'"
                ) from None

    def script(self) -> str:
        """Return a program that needs onnxruntime, numpy and pillow alone."""
        return SCRIPT.read_text()

    def content(self, network: DerivedNetwork, model: TrainedModel) -> bytes:
        """Return the network as an ONNX file with its description as metadata."""
        program = program_of(network, model)
        with _quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                external_data=False,
                input_names=["images"],
                output_names=["logits"],
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

    def int8(self, content: bytes, batches: Iterable[torch.Tensor]) -> bytes:
        """Return the file quantized statically, with the ranges that the batches show."""
        return quantized(content, batches)

    def latencies(self, contents: Sequence[bytes], images: ImageSpec) -> list[float]:
        """Return the milliseconds of each file in onnxruntime on one thread."""
        return latencies_of([(content, images) for content in contents])

    def runs(self, content: bytes) -> Forward:
        """Return an onnxruntime session as a function of images."""
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return lambda images: torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence two warnings of torch's exporter: about a class it should not use, and a package it does without."""
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
