"""Scores at initialization, against values that are found by other means."""

import copy
import math
import os
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from smallgroup.bench.outcome.proxies import PROXIES, agreements, log_determinant, naswot, synflow
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.choices import random_genotype
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.nas_bench_201 import Cell, Truth
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network

SMALL = NasBench201Design(images=ImageSpec(3, 2, 8), channels=4, cells_per_stage=1)
SMALL_DARTS = DartsDesign(images=ImageSpec(3, 2, 8), channels=4, cells=3)


def images(count: int = 6) -> Tensor:
    return torch.randn(count, 2, 8, 8, generator=stream("images"))


def chain(widths: list[int]) -> nn.Sequential:
    """Linear layers with ReLUs and batch norms between them, weights of either sign."""
    layers: list[nn.Module] = []
    for first, second in pairwise(widths):
        layers += [nn.Conv2d(first, second, 1), nn.BatchNorm2d(second), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_synflow_of_a_chain_is_its_paths_times_its_layers() -> None:
    """With absolute weights and ones as inputs, R is a product of matrices; each layer's weights sum up to R."""
    network = chain([3, 5, 4, 2])
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean, norm.running_var = torch.rand(norm.num_features), 2 + torch.rand(norm.num_features)
    through = torch.ones(3, dtype=torch.float64)
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            through = layer.weight.detach().double().abs()[:, :, 0, 0] @ through
    assert synflow(network, torch.zeros(7, 3, 2, 2)) == pytest.approx(3 * float(through.sum()), rel=1e-12)


def test_synflow_of_a_cell_is_that_of_differences() -> None:
    cell = Cell(("nor_conv_1x1", "none", "none", "nor_conv_1x1", "skip_connect", "none"))
    design = NasBench201Design(images=ImageSpec(2, 1, 4), channels=1, cells_per_stage=1)
    network = build_network(cell, design)
    expected = _path_flow(network, torch.ones(1, 1, 4, 4))
    assert synflow(network, torch.zeros(1, 1, 4, 4)) == pytest.approx(expected, rel=1e-9)


def _path_flow(network: nn.Module, ones: Tensor) -> float:
    """Sum |w dR/dw|, every derivative by a difference: R is linear in each single weight."""
    linear = copy.deepcopy(network).double().eval()
    layers = [layer for layer in linear.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.abs_()
            if layer.bias is not None:
                layer.bias.zero_()
        for norm in linear.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.eps = 0.0
        whole, total = float(linear(ones.double()).sum()), 0.0
        for layer in layers:
            for place in product(*map(range, layer.weight.shape)):
                kept = float(layer.weight[place])
                layer.weight[place] = 0.0
                total += whole - float(linear(ones.double()).sum())
                layer.weight[place] = kept
    return total


def test_kernel_of_hand_made_codes() -> None:
    """Three images: the first two agree in 3 of 4 places, the third is the opposite of the first."""
    layers = [torch.tensor([[1, 0], [1, 0], [0, 1]]).bool(), torch.tensor([[1, 1], [1, 0], [0, 0]]).bool()]
    kernel = agreements(layers)
    assert kernel.tolist() == [[4, 3, 0], [3, 4, 1], [0, 1, 4]]
    assert log_determinant(kernel) == pytest.approx(math.log(4 * (16 - 1) - 3 * (12 - 0)))
    assert log_determinant(agreements([torch.tensor([[1, 0], [1, 0]]).bool()])) == -math.inf


def test_naswot_of_a_network_is_that_of_its_codes() -> None:
    network = chain([2, 3, 4])
    x, codes = images(), []
    for layer in network:
        if isinstance(layer, nn.ReLU):
            codes.append((x > 0).flatten(1))
        if isinstance(layer, nn.BatchNorm2d):  # by the batch
            x = (x - x.mean((0, 2, 3), keepdim=True)) / (x.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()
        else:
            x = layer(x)
    assert naswot(network, images()) == pytest.approx(log_determinant(agreements(codes)), rel=1e-6)


@pytest.mark.parametrize("space", ["darts", "nas-bench-201"])
@pytest.mark.parametrize("name", PROXIES)
def test_derived_networks_are_scored_and_stay_as_they_are(name: str, space: str) -> None:
    genotype = published()["DARTS_V2"] if space == "darts" else random_genotype(space, stream(1))
    network = build_network(genotype, SMALL_DARTS if space == "darts" else SMALL).eval()
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    value = PROXIES[name](network, images())
    assert math.isfinite(value)
    assert value > 0
    assert value == PROXIES[name](network, images())
    assert not network.training
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())


def test_the_choice_by_parameters_is_far_above_chance_on_the_real_table() -> None:
    """The one with most parameters of 100 random cells, in the mean of 30 draws: about 93 where chance gives 50."""
    if "SMALLGROUP_DATA" not in os.environ:
        pytest.skip("needs SMALLGROUP_DATA")
    truth = Truth.find(Path(os.environ["SMALLGROUP_DATA"]))
    assert truth is not None
    kernels = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
    found = []
    for draw in range(30):
        generator = stream("draw", draw)
        cells = [random_genotype("nas-bench-201", generator) for _ in range(100)]
        best = max(
            (cell for cell in cells if isinstance(cell, Cell)),
            key=lambda cell: sum(kernels.get(op, 0) for op in cell.operations),
        )
        found.append(truth.standing(best, "cifar10").percentile)
    assert 90 < sum(found) / len(found) < 98
