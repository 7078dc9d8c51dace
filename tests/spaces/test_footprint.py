"""Flash and RAM against an independent walk over the exported ONNX graph."""

import json
from math import prod
from pathlib import Path

import onnx
import pytest
import torch
from onnx import numpy_helper, shape_inference
from torch import nn

from smallgroup.cli import main
from smallgroup.exporters.onnx import Onnx
from smallgroup.phases.training import TrainedModel
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.footprint import PER_CHANNEL, footprint
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import dumps
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.networks import build_network, design_of
from smallgroup.spaces.schedule import Node, best_schedule, peak_of
from tests.configs import FULL_SIZE
from tests.phases.training.models import DARTS

WITHOUT_NONE = Cell.parse(
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
)

IMAGES = ImageSpec(10, 1, 16)
SAME_MEMORY = {"Relu", "BatchNormalization", "Slice", "Reshape", "Flatten", "Identity", "Squeeze"}


def graph_of(proto: onnx.ModelProto) -> tuple[list[Node], int]:
    """The operations of a file with their bytes in int8 for one image, and the bytes of weights and constants."""
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    graph = shape_inference.infer_shapes(proto, data_prop=True).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.output, *graph.input)
    }
    nodes, owner, flash, normed = [Node(prod(shapes["images"]))], {"images": 0}, 0, set()
    for node in graph.node:
        sources = [owner[name] for name in node.input if name in owner]
        if not sources or node.op_type == "Shape":
            continue  # a constant, or (of older exporters) numbers of the shape of one image: nothing that int8 holds
        if node.op_type in ("Conv", "Gemm"):
            weight = constants[node.input[1]]
            flash += weight.size + PER_CHANNEL * shapes[node.output[0]][1]
            normed.add(node.output[0])
        if node.op_type == "BatchNormalization" and node.input[0] not in normed:
            flash += PER_CHANNEL * constants[node.input[1]].size
        if node.op_type in SAME_MEMORY:
            owner[node.output[0]] = sources[0]
            continue
        owner[node.output[0]] = len(nodes)
        nodes.append(Node(prod(shapes[node.output[0]]), tuple(sources)))
    return nodes, flash


@pytest.mark.parametrize("genotype", [DARTS, WITHOUT_NONE], ids=["darts", "nas-bench-201"])
def test_an_independent_walk_over_the_onnx_graph_agrees(genotype: Genotype) -> None:
    network = NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="none")
    design = network.design(IMAGES, genotype.space)
    module = build_network(genotype, design).eval()
    names = tuple(map(str, range(10)))
    content = Onnx().content(module, TrainedModel(genotype, design, "x", names, (0.5,), (0.5,)))
    nodes, flash = graph_of(onnx.load_from_string(content))
    found = footprint(module, IMAGES)
    assert found.schedule.exact
    assert found.schedule.peak == best_schedule(nodes).peak
    assert found.flash == flash
    # The order in which the file lists its operations is one of many, and needs at least as much.
    assert peak_of(nodes, range(len(nodes))) >= found.schedule.peak


def test_by_hand() -> None:
    """Two convolutions with norms, a maximum pooling and a norm of its own, the mean, and ten classes."""

    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean((2, 3))

    layers = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4),
        nn.MaxPool2d(2), nn.BatchNorm2d(4), Mean(), nn.Linear(4, 10),
    )  # fmt: skip
    found = footprint(layers, IMAGES)
    assert found.flash == (36 + 4 * 8) + (16 + 4 * 8) + 4 * 8 + (40 + 10 * 8)
    assert found.schedule.peak == 2 * 4 * 256  # input and result of the second convolution
    assert (found.flash_kb, found.ram_kb) == (found.flash / 1024, found.schedule.peak / 1024)


def test_the_commands_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = dumps(WITHOUT_NONE)
    assert main(["describe", text, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    design = design_of(WITHOUT_NONE, "cifar10")
    found = footprint(build_network(WITHOUT_NONE, design, device="meta"), design.images)
    assert (told["flash_kb"], told["ram_kb"], told["ram_exact"]) == (found.flash_kb, found.ram_kb, True)
    assert main(["describe", text]) == 0
    assert f"flash, int8    {found.flash_kb:,.1f} KB of weights and constants\n" in capsys.readouterr().out
    limits = ["--max-ram-kb", "0.1", "--max-flash-kb", "100000"]
    assert main(["train", text, *limits, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "error: a network must have at most 100,000.0 KB of flash (int8) and 0.1 KB of RAM (int8)" in error
    assert not (tmp_path / "run").exists()
