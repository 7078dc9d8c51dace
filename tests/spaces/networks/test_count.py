"""Sizes of networks, to the unit: against those of published code, and against formulas written down apart."""

import copy
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from smallgroup.spaces.count import multiply_adds, operations, parameters
from smallgroup.spaces.darts.genotype import DartsGenotype
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.nas_bench_201 import OPERATIONS, Cell
from smallgroup.spaces.networks import build_network, design_of, image_size

COUNTS: dict[str, dict[str, dict[str, int]]] = json.loads(Path(__file__).with_name("counts.json").read_text())
"""Of the networks published code builds: parameters, those with the auxiliary head it has, and multiply-adds."""

MILLIONS = {"DARTS_V2": 544.0, "PDARTS": 557.1, "PCDARTS_cifar": 585.9, "PCDARTS_image": 597.1}
"""Multiply-adds on ImageNet with elementwise operations; the last three are the 557, 586 and 597 of their papers."""

PUBLISHED = {
    "GDAS_V1": ("cifar10", 3.4),
    "DARTS_PLUS": ("cifar10", 3.7),
    "NoisyDARTS_a": ("cifar10", 3.3),
    "ASAP": ("cifar10", 2.5),
    "SDARTS_ADV": ("cifar10", 3.3),
    "DrNAS_cifar10": ("cifar10", 4.1),
    "DARTS_PT_2": ("cifar10", 2.7),
    "DARTS_PT_3": ("cifar10", 3.3),
    "DrNAS_imagenet": ("imagenet", 5.7),
}
"""Millions of parameters that papers state for a cell."""

WITH_HEAD = {
    "GDAS_V1": (519, None),
    "SNAS": (422, None),
    "FairDARTS_b": (536, 3.88),
    "FairDARTS_d": (532, 3.84),
    "FairDARTS_e": (414, 3.12),
    "FairDARTS_f": (497, 3.62),
    "FairDARTS_g": (453, 3.37),
}
"""Millions of multiply-adds on CIFAR-10, and of parameters with the auxiliary head, that the release of FairDARTS
states, cut off behind the last digit."""

OFFICIAL = {
    "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|": (
        129_306,
        15.647,
    ),
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|none~0|nor_conv_3x3~1|avg_pool_3x3~2|": (802_426, 113.951),
    "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|none~0|nor_conv_1x1~1|none~2|": (101_306, 11.715),
}
"""Cells 0, 11 and 284 of the benchmark: parameters and millions of multiply-adds on CIFAR-10."""


@pytest.mark.parametrize(("name", "network"), [(name, network) for name in COUNTS for network in COUNTS[name]])
def test_published_cells(name: str, network: str) -> None:
    expected = COUNTS[name][network]
    (head,) = {"one-norm", "two-norms"} & set(expected)
    genotype = published()[name]
    design = replace(design_of(genotype, network), auxiliary=head)
    module = build_network(genotype, design, device="meta")
    counted = operations(module, design.images.size)
    assert {
        "parameters": parameters(module),
        head: parameters(module, auxiliary=True),
        "multiply_adds": counted.multiply_adds,
    } == expected
    if network == "imagenet" and name in MILLIONS:
        assert round(counted.with_elementwise / 1e6, 1) == MILLIONS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_cells_have_the_parameters_that_their_papers_state(name: str) -> None:
    network, millions = PUBLISHED[name]
    assert round(parameters(build_network(published()[name], network, device="meta")) / 1e6, 1) == millions


@pytest.mark.parametrize("name", WITH_HEAD)
def test_cells_have_the_sizes_that_a_release_states(name: str) -> None:
    genotype, (multiplications, millions) = published()[name], WITH_HEAD[name]
    module = build_network(genotype, design_of(genotype, auxiliary=True), device="meta")
    assert int(multiply_adds(module, 32) / 1e6) == multiplications
    if millions is not None:
        assert int(parameters(module, auxiliary=True) / 1e4) / 100 == millions


def cell_weights(genotype: DartsGenotype, kind: str, c: int) -> int:
    """Of the operations of a cell: separable convolutions twice, and skip connections that halve the size."""
    total = 0
    for edges in getattr(genotype, kind).nodes:
        for name, source in edges:
            if name.startswith("sep_conv"):
                total += 2 * (int(name[-1]) ** 2 * c + c * c + 2 * c)
            elif name == "skip_connect" and kind == "reduce" and source < 2:
                total += c * c + 2 * c
    return total


@pytest.mark.parametrize("name", ["BayesNAS_a", "BayesNAS_b", "BayesNAS_c"])
def test_cells_of_bayes_nas_have_the_size_of_the_closed_form(name: str) -> None:
    """Several operations stand on one edge in them. Every input of a cell has a 1x1 convolution and a norm."""
    genotype = published()[name]
    c, before, last, expected = 36, 3 * 36, 3 * 36, 3 * 36 * 27 + 2 * 3 * 36
    for layer in range(20):
        kind = "reduce" if layer in (6, 13) else "normal"
        c *= 1 + (kind == "reduce")
        expected += (before + last) * c + 4 * c + cell_weights(genotype, kind, c)
        before, last = last, 4 * c
    assert parameters(build_network(genotype, device="meta")) == expected + 4 * c * 10 + 10


def test_a_network_by_name_has_no_head() -> None:
    module = build_network(published()["DARTS_V2"], "imagenet", device="meta")
    assert sum(weight.numel() for weight in module.parameters()) == COUNTS["DARTS_V2"]["imagenet"]["parameters"]


@pytest.mark.parametrize("name", sorted(set(MILLIONS) - set(COUNTS)))
def test_published_millions(name: str) -> None:
    module = build_network(published()[name], "imagenet", device="meta")
    assert round(operations(module, 224).with_elementwise / 1e6, 1) == MILLIONS[name]


@pytest.mark.parametrize("text", OFFICIAL)
def test_cells_of_the_benchmark(text: str) -> None:
    """Its counts are those of convolutions and the linear layer alone, like ours."""
    module = build_network(Cell.parse(text))
    size, millions = OFFICIAL[text]
    assert parameters(module) == size
    assert multiply_adds(module, 32) / 1e6 == pytest.approx(millions, abs=5e-4)


def test_classes_of_the_benchmark() -> None:
    cell = Cell.parse(next(iter(OFFICIAL)))
    assert parameters(build_network(cell, "cifar100")) == 135_156
    assert parameters(build_network(cell, "imagenet")) == 136_456
    assert image_size(cell, "imagenet") == 16


def formula(cell: Cell) -> int:
    """Stem, three times five cells, two residual blocks, the last batch norm and the linear layer."""
    ones, threes = cell.operations.count("nor_conv_1x1"), cell.operations.count("nor_conv_3x3")
    cells = sum(5 * (ones * (c * c + 2 * c) + threes * (9 * c * c + 2 * c)) for c in (16, 32, 64))
    residual = sum(9 * i * o + 2 * o + 9 * o * o + 2 * o + i * o for i, o in ((16, 32), (32, 64)))
    return 464 + cells + residual + 128 + 64 * 10 + 10


def test_the_formula_of_the_benchmark() -> None:
    draw = random.Random(0)
    cells = [Cell((operation,) * 6) for operation in OPERATIONS]
    cells += [Cell(tuple(draw.choices(OPERATIONS, k=6))) for _ in range(20)]
    for cell in cells:
        with torch.device("meta"):
            assert parameters(build_network(cell)) == formula(cell)
    assert formula(Cell(("none",) * 6)) == 73_306
    assert formula(Cell(("nor_conv_3x3",) * 6)) == 1_531_546


def test_by_hand() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 20, 7))
    assert parameters(module) == 8 * 27 + 8 + 16 + 160 * 7 + 7
    assert multiply_adds(module, (4, 5)) == 20 * 8 * 27 + 160 * 7
    assert operations(module, (4, 5)) == (20 * 8 * 27 + 160 * 7, 20 * 8 * 27 + 160 * 7 + 2 * 8 * 20)
    assert operations(nn.Sequential(module[0], nn.ReLU(), module[1]), (4, 5)) == (20 * 8 * 27, 20 * 8 * (27 + 3))


def test_counting_leaves_the_network_as_it_was() -> None:
    module = build_network(Cell(("skip_connect",) * 6))
    module.train()
    before = copy.deepcopy(module.state_dict())
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    output = module.eval()(images)
    module.train()
    multiply_adds(module, 32)
    assert module.training
    assert torch.equal(module.eval()(images), output)
    for name, tensor in module.state_dict().items():
        assert tensor.device.type == "cpu"
        assert torch.equal(tensor, before[name]), name


def test_wrong_sizes_and_names() -> None:
    with pytest.raises(ValueError, match="size of an image must be at least 1, but got 0x0"):
        multiply_adds(nn.Identity(), 0)
    with pytest.raises(ValueError, match="size of an image must be at least 1, but got 3x0"):
        operations(nn.Identity(), (3, 0))
    for genotype in (published()["PDARTS"], Cell(("none",) * 6)):
        with pytest.raises(ValueError, match="network must be one of cifar10, cifar100, imagenet, but got 'svhn'"):
            build_network(genotype, "svhn")
        with pytest.raises(ValueError, match="but got 'svhn'"):
            image_size(genotype, "svhn")
