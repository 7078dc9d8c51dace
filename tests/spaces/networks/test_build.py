"""One function builds every network: from a dataset's name, or from a design."""

import json
import random
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch

from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.darts.config import DartsConfig
from smallgroup.spaces.darts.design import NETWORKS, DartsDesign
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.nas_bench_201 import Cell
from smallgroup.spaces.nas_bench_201.design import NETWORKS as BENCHMARK_NETWORKS
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.nas_bench_201.network import NasBench201Network
from smallgroup.spaces.networks import build_network, design_of, image_size
from smallgroup.spaces.outputs import Outputs

DARTS_V2 = published()["DARTS_V2"]
CELL = Cell.parse("|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_3x3~2|")
DIGITS = DartsDesign(images=ImageSpec(10, 1, 8), channels=6, cells=5)
DIGITS_OF_BENCHMARK = NasBench201Design(images=ImageSpec(10, 1, 8), channels=6, cells_per_stage=2)


@pytest.mark.parametrize("name", ["NASNet_A", "AmoebaNet_A", "DARTS_V2", "PDARTS", "benchmark"])
def test_networks_for_digits_of_8x8(name: str) -> None:
    """Every weight is trained."""
    genotype: Genotype = CELL if name == "benchmark" else published()[name]
    design: NetworkDesign = replace(DIGITS, auxiliary="two-norms", drop_path=0.2)
    if isinstance(genotype, Cell):
        design = DIGITS_OF_BENCHMARK
    network = build_network(genotype, design)
    images = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    logits, auxiliary = Outputs.of(network(images, (0, 0)))
    assert logits.shape == (16, 10)
    assert (auxiliary is None) == isinstance(genotype, Cell)
    total = logits.square().sum() + (0 if auxiliary is None else auxiliary.square().sum())
    total.backward()  # type: ignore[no-untyped-call]
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []


def test_the_size_of_the_cells_of_digits() -> None:
    network = build_network(DARTS_V2, DIGITS)
    assert isinstance(network, DartsNetwork)
    shapes: list[tuple[int, ...]] = []
    for cell in network.cells:
        cell.register_forward_hook(lambda _module, _inputs, output: shapes.append(tuple(output.shape[1:])))
    network(torch.ones(2, 1, 8, 8))
    assert shapes == [(24, 8, 8), (48, 4, 4), (48, 4, 4), (96, 2, 2), (96, 2, 2)]
    assert network.stem.channels == (6, 6)


def test_every_part_of_a_design_arrives() -> None:
    design = DartsDesign(
        images=ImageSpec(7, 2, 64), channels=4, cells=6, stem="imagenet", auxiliary="one-norm", drop_path=0.3
    )
    network = build_network(DARTS_V2, design)
    assert isinstance(network, DartsNetwork)
    assert network.genotype == DARTS_V2
    assert len(network.cells) == 6
    assert network.classifier.weight.shape == (7, 64)
    assert network.stem.reduction_before
    assert network.stem.state_dict()["first.0.weight"].shape == (2, 2, 3, 3)
    assert network.drop_path == 0.3
    assert network.auxiliary is not None
    assert network.auxiliary.classifier.out_features == 7
    benchmark = build_network(CELL, NasBench201Design(images=design.images, channels=4, cells_per_stage=3))
    assert isinstance(benchmark, NasBench201Network)
    assert benchmark.genotype == CELL
    assert len(benchmark.body) == 2 + 3 * 3 + 2 + 3
    assert benchmark.classifier.weight.shape == (7, 16)
    assert benchmark.state_dict()["body.0.weight"].shape == (4, 2, 3, 3)


def test_designs_of_the_papers() -> None:
    for name, (classes, size, channels, cells, stem) in {
        "cifar10": (10, 32, 36, 20, "cifar"),
        "cifar100": (100, 32, 36, 20, "cifar"),
        "imagenet": (1000, 224, 48, 14, "imagenet"),
    }.items():
        design = design_of(DARTS_V2, name)
        assert isinstance(design, DartsDesign)
        assert (design.images, design.channels) == (ImageSpec(classes, 3, size), channels)
        assert (design.cells, design.stem, design.auxiliary, design.drop_path) == (cells, stem, "none", 0)
        assert design_of(DARTS_V2, name, auxiliary=True) == NETWORKS[name]
        assert image_size(DARTS_V2, name) == size
        assert design_of(CELL, name, auxiliary=True) == design_of(CELL, name) == BENCHMARK_NETWORKS[name]
    assert {(design.channels, design.cells_per_stage) for design in BENCHMARK_NETWORKS.values()} == {(16, 5)}
    with torch.device("meta"):
        network = build_network(DARTS_V2)
    assert isinstance(network, DartsNetwork)
    assert network.auxiliary is None
    assert len(network.cells) == 20


def test_the_stem_is_chosen_as_in_a_search() -> None:
    for size in (4, 8, 16, 31, 32, 64, 127, 128, 224):
        space = DartsConfig(name="darts", channels=8).build(ImageSpec(10, 3, size))
        assert isinstance(space, DartsSpace)
        assert replace(DIGITS, images=ImageSpec(10, 1, size)).stem_kind == space.stem
    assert replace(DIGITS, stem="cifar").stem_kind == "cifar"


@pytest.mark.parametrize("stem", ["cifar", "small", "imagenet"])
def test_how_much_is_left_after_the_second_reduction(stem: str) -> None:
    for size in (1, 33, 64):
        design = replace(DIGITS, images=ImageSpec(10, 1, size), stem=stem, cells=3, channels=2)
        network = build_network(DARTS_V2, design, device="meta").eval()
        assert isinstance(network, DartsNetwork)
        sides: list[int] = []
        network.cells[2].register_forward_hook(lambda _m, _i, output, sides=sides: sides.extend(output.shape[2:]))
        network(torch.empty(1, 1, size, size, device="meta"))
        assert sides == [design.smallest_map] * 2


def test_weights_are_a_function_of_the_generator() -> None:
    design = replace(DIGITS, cells=3, auxiliary="two-norms")
    before = torch.get_rng_state(), random.getstate()
    first, same = (build_network(DARTS_V2, design, generator=stream(1, "weights")) for _ in range(2))
    other, default, again = (
        build_network(DARTS_V2, design, generator=stream(2, "weights")),
        build_network(DARTS_V2, design),
        build_network(DARTS_V2, design),
    )
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    for name, value in first.state_dict().items():
        assert torch.equal(same.state_dict()[name], value)
        assert torch.equal(again.state_dict()[name], default.state_dict()[name])
        if value.dim() == 4:
            assert not torch.equal(other.state_dict()[name], value)
            assert not torch.equal(default.state_dict()[name], value)
            assert value.std() > 0
    assert all(value.isfinite().all() for value in first.state_dict().values())


def test_on_the_meta_device_there_are_no_weights() -> None:
    with torch.device("meta"):
        as_default = build_network(DARTS_V2, DIGITS)
    for network in (as_default, build_network(DARTS_V2, DIGITS, device="meta")):
        assert {value.device.type for value in network.state_dict().values()} == {"meta"}
    with torch.device("meta"):
        network = build_network(DARTS_V2, DIGITS, device="cpu")
    assert {value.device.type for value in network.state_dict().values()} == {"cpu"}


def test_designs_are_compared_by_value_and_do_not_change() -> None:
    assert replace(DIGITS) == DIGITS
    assert hash(replace(DIGITS)) == hash(DIGITS)
    with pytest.raises(FrozenInstanceError):
        DIGITS.channels = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": -1}, "channels >= 1 must hold, but got channels=-1"),
        ({"cells": 0}, "cells >= 1 must hold, but got cells=0"),
        ({"stem": "mnist"}, "stem must be one of auto, cifar, small, imagenet, but got 'mnist'"),
        ({"auxiliary": "yes"}, "auxiliary must be one of none, one-norm, two-norms, but got 'yes'"),
        ({"drop_path": 1.0}, r"0 <= drop_path < 1 must hold, but got drop_path=1\.0"),
    ],
)
def test_what_is_no_design(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(DIGITS, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "classes >= 1 must hold, but got classes=0"),
        ({"channels": 0}, "image_channels >= 1 must hold, but got image_channels=0"),
        ({"size": 0}, "image_size >= 1 must hold, but got image_size=0"),
    ],
)
def test_what_are_no_images(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(DIGITS.images, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells_per_stage": 0}, "cells_per_stage >= 1 must hold, but got cells_per_stage=0"),
        ({"reduction": "none"}, "reduction must be one of residual, pool, but got 'none'"),
        ({"pooling": "sum"}, "pooling must be one of average, maximum, but got 'sum'"),
    ],
)
def test_what_is_no_design_of_the_benchmark(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(DIGITS_OF_BENCHMARK, **changes)


def test_designs_of_another_space_are_refused() -> None:
    with pytest.raises(TypeError, match="of nas-bench-201 needs a NasBench201Design, but got a DartsDesign"):
        build_network(CELL, DIGITS)


def test_designs_are_written_and_read_back_also_those_of_earlier_versions() -> None:
    """Which had the keys of every space in the file of a model."""
    for design in (DIGITS, DIGITS_OF_BENCHMARK):
        assert type(design).from_plain(json.loads(json.dumps(design.to_plain()))) == design
    both = {**DIGITS_OF_BENCHMARK.to_plain(), "cells": 20, "stem": "auto", "auxiliary": "none", "drop_path": 0.0}
    assert NasBench201Design.from_plain(both) == DIGITS_OF_BENCHMARK
    assert DartsDesign.from_plain({**DIGITS.to_plain(), **dict.fromkeys(["stages", "pooling"], 3)}) == DIGITS
    with pytest.raises(TypeError, match="depth"):
        DartsDesign.from_plain({**DIGITS.to_plain(), "depth": 3})


@pytest.mark.parametrize(
    ("genotype", "changes", "message"),
    [
        (DARTS_V2, {"cells": 2}, "cells must be at least 3, so that normal and reduction cells occur, but got 2"),
        (DARTS_V2, {"auxiliary": "one-norm", "images": ImageSpec(10, 1, 4)}, "so small that 1x1 are left"),
        (CELL, {"auxiliary": "one-norm"}, "auxiliary must be none in networks of nas-bench-201, but got one-norm"),
        (CELL, {"drop_path": 0.2}, r"drop_path must be 0 in networks of nas-bench-201, but got drop_path=0\.2"),
    ],
)
def test_designs_that_do_not_fit_the_genotype(genotype: Genotype, changes: dict[str, Any], message: str) -> None:
    design: NetworkDesign = DIGITS_OF_BENCHMARK if isinstance(genotype, Cell) else DIGITS
    with pytest.raises(ValueError, match=message):
        build_network(genotype, replace(design, **changes))
