"""Static post-training quantization of an ONNX file to int8, by onnxruntime."""

import importlib
import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor


def quantized(content: bytes, batches: Iterable[Tensor]) -> bytes:
    """Return the file in int8: QDQ, weights per channel and symmetric, activations by the range they have in batches.

    Batch norms become part of the convolutions before them first.
    """
    onnx, quantization = (importlib.import_module(name) for name in ("onnx", "onnxruntime.quantization"))
    preparation = importlib.import_module("onnxruntime.quantization.shape_inference")
    with tempfile.TemporaryDirectory() as name, _quiet():
        given, prepared, made = (Path(name) / f"{step}.onnx" for step in ("given", "prepared", "int8"))
        given.write_bytes(content)
        preparation.quant_pre_process(str(given), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(made),
            _Reader(batches),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
        )
        proto = onnx.load(str(made))
    del proto.graph.value_info[:]  # shapes in between, which every reader infers
    del proto.metadata_props[:]
    proto.metadata_props.extend(onnx.load_from_string(content).metadata_props)
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString())


class _Reader:
    """Batches in the form in which onnxruntime asks for them."""

    def __init__(self, batches: Iterable[Tensor]) -> None:
        self._batches: Iterator[Tensor] = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch by the name of the input; None: there is no more."""
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch.numpy()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the advice that the quantizer logs."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
