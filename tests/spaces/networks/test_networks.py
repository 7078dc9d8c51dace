"""Derived networks: how cells are wired, which images they take, what is refused."""

import pytest
import torch
from torch import nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.names import STEMS
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.darts.skeleton import build_stem, reduction_cells
from smallgroup.spaces.layers import FULL, SEARCH, FactorizedReduce
from smallgroup.spaces.nas_bench_201 import Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.nas_bench_201.network import NasBench201Network
from smallgroup.spaces.networks import build_network

DARTS_V2 = published()["DARTS_V2"]


def random_images(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def skips(*sources: tuple[int, ...], concat: tuple[int, ...] = (2, 3, 4, 5)) -> CellGenotype:
    return CellGenotype(tuple(tuple(Edge("skip_connect", source) for source in node) for node in sources), concat)


def test_nodes_sum_their_edges_and_the_output_is_side_by_side() -> None:
    """Nodes of one, two and three edges, an empty one that nothing uses, an order of its own in the output."""
    cell = skips((0, 0), (), (0,), (4, 2, 1), concat=(5, 2))
    network = DartsNetwork(DartsGenotype(cell, DARTS_V2.reduce), DartsDesign(channels=4, cells=3)).eval()
    first = network.cells[0]
    before, last = random_images(2, 12, 8, 8), random_images(2, 12, 8, 8) + 1
    a, b = first.preprocess0(before), first.preprocess1(last)  # type: ignore[operator]
    assert not torch.equal(a, b)
    torch.testing.assert_close(first(before, last), torch.cat([a + (a + a) + b, a + a], dim=1))


def test_reduction_cells_halve_what_comes_from_outside_only() -> None:
    network = DartsNetwork(DARTS_V2, DartsDesign(channels=4, cells=5))
    shapes = []
    for cell in network.cells:
        cell.register_forward_hook(lambda _module, _inputs, output: shapes.append(tuple(output.shape[1:])))
    network(random_images(2, 3, 32, 32))
    assert shapes == [(16, 32, 32), (32, 16, 16), (32, 16, 16), (64, 8, 8), (64, 8, 8)]
    first_inputs = [type(cell.preprocess0) is FactorizedReduce for cell in network.cells]
    assert first_inputs == [False, False, True, False, True]


@pytest.mark.parametrize(("stem", "size"), [("cifar", 32), ("cifar", 29), ("small", 8), ("small", 1), ("imagenet", 65)])
def test_every_image_size_works_and_every_weight_is_trained(stem: str, size: int) -> None:
    network = DartsNetwork(DARTS_V2, DartsDesign(images=ImageSpec(7, 2, 32), channels=4, cells=4, stem=stem))
    logits = network(random_images(3, 2, size, size))
    assert logits.shape == (3, 7)
    logits.square().sum().backward()
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", ["NASNet_A", "AmoebaNet_A"])
def test_cells_of_five_nodes_and_other_concats(name: str) -> None:
    network = DartsNetwork(published()[name], DartsDesign(channels=4, cells=5))
    assert network(random_images(2, 3, 16, 16)).shape == (2, 10)


@pytest.mark.parametrize("name", published())
def test_every_published_cell_can_be_trained(name: str) -> None:
    network = build_network(published()[name], DartsDesign(images=ImageSpec(4, 3, 8), channels=2, cells=3))
    logits = network(random_images(3, 3, 8, 8))
    assert isinstance(logits, torch.Tensor)
    logits.square().sum().backward()  # type: ignore[no-untyped-call]
    assert [key for key, weight in network.named_parameters() if weight.grad is None] == []


def test_batch_norms_of_derived_networks() -> None:
    """Scale, shift and running statistics everywhere, and none behind a pool: DARTS_V2's pools sit in reductions."""
    for network in (build_network(DARTS_V2, device="meta"), build_network(Cell(("nor_conv_3x3",) * 6), device="meta")):
        norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
        assert norms
        assert all(norm.affine and norm.track_running_stats for norm in norms)
        convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
        assert all(convolution.bias is None for convolution in convolutions)


def test_wiring_of_the_benchmark_cell() -> None:
    skip, none = "skip_connect", "none"

    def output(*operations: str) -> torch.Tensor:
        network = NasBench201Network(Cell(operations), NasBench201Design(channels=2, cells_per_stage=1))
        value: torch.Tensor = network.body[2](torch.ones(1, 2, 4, 4))
        assert value.min() == value.max()
        return value.min()

    assert output(*[skip] * 6) == 4
    assert output(skip, none, none, none, skip, none) == 1
    assert output(skip, skip, skip, none, none, skip) == 2
    assert output(none, skip, skip, skip, skip, skip) == 2
    assert output(*[none] * 6) == 0


def test_the_shortcut_of_the_benchmark_network() -> None:
    """What is left of a residual block whose convolutions give zero."""
    block = NasBench201Network(Cell(("none",) * 6), NasBench201Design(channels=2, cells_per_stage=1)).body[3]
    state = block.state_dict()
    state["body.1.2.weight"].zero_()
    state["shortcut.1.weight"].fill_(1)
    images = random_images(1, 2, 6, 6)
    means = images.sum(1).reshape(3, 2, 3, 2).mean((1, 3))
    torch.testing.assert_close(block(images)[0], means.expand(4, 3, 3))


@pytest.mark.parametrize("size", [32, 16, 9, 1])
def test_the_benchmark_network(size: int) -> None:
    cell = Cell.parse("|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|none~1|nor_conv_3x3~2|")
    network = NasBench201Network(cell, NasBench201Design(images=ImageSpec(5, 1, 32), channels=4, cells_per_stage=2))
    assert len(network.body) == 2 + 3 * 2 + 2 + 3
    assert network(random_images(2, 1, size, size)).shape == (2, 5)


def test_where_reductions_are() -> None:
    known = {3: {1, 2}, 5: {1, 3}, 8: {2, 5}, 11: {3, 7}, 14: {4, 9}, 17: {5, 11}, 20: {6, 13}}
    assert {cells: set(reduction_cells(cells)) for cells in known} == known


@pytest.mark.parametrize("style", [FULL, SEARCH])
@pytest.mark.parametrize("kind", STEMS)
def test_stems(kind: str, style: object) -> None:
    """In every style the batch norms have a scale; while searching none has a memory."""
    stem = build_stem(kind, 3, 8, FULL if style is FULL else SEARCH)
    first, second = stem(random_images(2, 3, 32, 32))
    assert stem.channels == (first.shape[1], second.shape[1])
    width, sizes = {"cifar": (24, (32, 32)), "small": (8, (32, 32)), "imagenet": (8, (8, 4))}[kind]
    assert (first.shape[1], first.shape[2], second.shape[2]) == (width, *sizes)
    assert stem.reduction_before == (kind == "imagenet")
    norms = [module for module in stem.modules() if isinstance(module, nn.BatchNorm2d)]
    assert all(norm.affine for norm in norms)
    assert bool(list(stem.buffers())) == (style is FULL)


def test_the_stem_of_an_imagenet_supernet_is_three_times_as_wide() -> None:
    stem = build_stem("imagenet", 3, 16, SEARCH, width=48)
    weights = [tuple(weight.shape) for weight in stem.parameters() if weight.dim() == 4]
    assert weights == [(24, 3, 3, 3), (48, 24, 3, 3), (48, 48, 3, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cells": 2}, "cells must be at least 3, so that normal and reduction cells occur, but got 2"),
        ({"cells": 0}, "cells >= 1 must hold, but got cells=0"),
        ({"channels": 0}, "channels >= 1 must hold, but got channels=0"),
        ({"stem": "mnist"}, "stem must be one of auto, cifar, small, imagenet, but got 'mnist'"),
        ({"channels": 5, "stem": "imagenet"}, "width of the imagenet stem must be even, but got 5"),
    ],
)
def test_what_cannot_be_built_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DartsNetwork(DARTS_V2, DartsDesign(**{"channels": 36, **options}))  # type: ignore[arg-type]


def test_sizes_are_whole_numbers() -> None:
    with pytest.raises(TypeError, match="channels must be a whole number, but got float"):
        NasBench201Network(Cell(("none",) * 6), NasBench201Design(channels=2.5))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cells must be a whole number, but got bool"):
        DartsNetwork(DARTS_V2, DartsDesign(channels=36, cells=True))
    with pytest.raises(ValueError, match="classes >= 1 must hold, but got classes=-1"):
        ImageSpec(classes=-1)
    with pytest.raises(ValueError, match="image_channels >= 1 must hold, but got image_channels=0"):
        ImageSpec(channels=0)
