"""How long a network takes for one image on this machine: onnxruntime, one thread, the median of alternating runs."""

import gc
import io
import time
import warnings
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, cast

import torch

from smallgroup import kernels
from smallgroup.exporters.exporter import require_onnxruntime
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.networks import build_network

WARM_UP = 3
ROUNDS = (11, 101)
"""The fewest and the most runs of each file."""
SECONDS = 1.0
"""About how long the runs of the slowest file take together."""


def latencies_of(contents: Sequence[tuple[bytes, ImageSpec]]) -> list[float]:
    """Return the milliseconds that ONNX files take for one image of theirs; their runs alternate."""
    import onnxruntime as runtime  # type: ignore[import-untyped]  # noqa: PLC0415 -- an extra

    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    def runs_of(content: bytes, images: ImageSpec) -> Callable[[], object]:
        session: Any = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        image = torch.randn(1, *images.shape, generator=stream("latency")).numpy()
        return lambda: session.run(["logits"], {"images": image})

    return medians([runs_of(content, images) for content, images in contents])


def medians(calls: Sequence[Callable[[], object]], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Return the median milliseconds of each call; every round makes each once, so that all meet the same load."""
    seconds: list[list[float]] = [[] for _ in calls]

    def take_turns() -> None:
        for call, own in zip(calls, seconds, strict=True):
            start = clock()
            call()
            own.append(clock() - start)

    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(WARM_UP):
            take_turns()
        slowest = max(median(own) for own in seconds)
        for own in seconds:
            own.clear()
        for _ in range(min(max(ROUNDS[0], round(SECONDS / max(slowest, 1e-9))), ROUNDS[1])):
            take_turns()
    finally:
        if collects:
            gc.enable()
    return [1000 * median(own) for own in seconds]


def measure(networks: Sequence[tuple[Genotype, NetworkDesign]]) -> list[float]:
    """Return the latencies of networks, with initial weights: they do not depend on what the weights are."""
    require_onnxruntime("latency")
    return latencies_of([(_content(genotype, design), design.images) for genotype, design in networks])


def _content(genotype: Genotype, design: NetworkDesign) -> bytes:
    """Return an ONNX file for one image.

    By the older exporter of torch: it takes seconds where the newer one takes a minute or two, and onnxruntime makes
    networks of the same latency of both.
    """
    network = build_network(genotype, design, device="cpu").eval()  # whatever the training runs on
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad(), kernels.using("plain"):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(1, *design.images.shape),),
            cast(Any, file),  # this exporter writes to files in memory, too
            dynamo=False,
            input_names=["images"],
            output_names=["logits"],
        )
    return file.getvalue()
