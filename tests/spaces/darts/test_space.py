"""The DARTS space: counts, operations against their definitions, mixing, derivation."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.costs import costs
from smallgroup.spaces.darts import OPERATIONS, CellGenotype, DartsGenotype, DartsSpace, Edge, operations
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.layers import FULL, SEARCH, FactorizedReduce, Style
from smallgroup.spaces.space import EdgeParts, Mixture
from smallgroup.spaces.weights import initial_weights, initialize


def count(space: DartsSpace) -> int:
    return sum(p.numel() for p in space.supernet(MixedEdge, {}).parameters())


@pytest.mark.parametrize(
    ("space", "parameters"),
    [
        (DartsSpace(), 1_930_618),
        (DartsSpace(images=ImageSpec(100, 3, 32)), 1_953_748),
        (DartsSpace(channels=8, cells=5), 394_210),
        (DartsSpace(cells=5), 1_275_834),
    ],
)
def test_supernets_have_the_published_number_of_parameters(space: DartsSpace, parameters: int) -> None:
    assert count(space) == parameters


def test_the_imagenet_stem_shrinks_eightfold_and_is_three_times_as_wide() -> None:
    supernet = DartsSpace(channels=4, cells=3, stem="imagenet", images=ImageSpec(10, 3, 64)).supernet(MixedEdge, {})
    first, second = supernet.stem(torch.zeros(2, 3, 64, 64, device="meta"))  # type: ignore[operator]
    assert (first.shape, second.shape) == ((2, 12, 16, 16), (2, 12, 8, 8))


def test_reductions_lie_at_one_and_two_thirds() -> None:
    assert {n: sorted(DartsSpace(cells=n).reductions) for n in (5, 8, 20)} == {5: [1, 3], 8: [2, 5], 20: [6, 13]}


def random_images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=stream("test"), dtype=torch.float64)


@pytest.mark.parametrize("size", [8, 7, 1])
def test_factorized_reduce_is_two_strided_convolutions(size: int) -> None:
    layer = FactorizedReduce(3, 4, SEARCH).double()
    x = random_images(2, 3, size, size)
    shifted = F.pad(F.relu(x), (0, 1, 0, 1))[..., 1:, 1:]
    parts = [F.conv2d(F.relu(x), layer.even.weight, stride=2), F.conv2d(shifted, layer.odd.weight, stride=2)]
    expected = F.batch_norm(torch.cat(parts, dim=1), None, None, training=True)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_what_they_are_called(name: str, stride: int) -> None:
    x = random_images(2, 4, 6, 6)
    module = operations.build(name, 4, stride, SEARCH).double()
    kernels = [p for p in module.parameters() if p.dim() == 4]

    def norm(t: Tensor) -> Tensor:
        return F.batch_norm(t, None, None, training=True)

    def depthwise(t: Tensor, i: int, stride: int, dilation: int = 1) -> Tensor:
        padding = dilation * (kernels[i].shape[-1] // 2)
        t = F.conv2d(F.relu(t), kernels[i], None, stride, padding, dilation, groups=4)
        return norm(F.conv2d(t, kernels[i + 1]))

    if name == "none":
        expected = torch.zeros_like(x[..., ::stride, ::stride])
    elif name == "max_pool_3x3":
        expected = norm(F.max_pool2d(x, 3, stride, 1))
    elif name == "avg_pool_3x3":
        expected = norm(F.avg_pool2d(x, 3, stride, 1, count_include_pad=False))
    elif name == "skip_connect":
        if stride == 2:
            return  # tested above
        expected = x
    elif name.startswith("sep"):
        assert [tuple(k.shape[-2:]) for k in kernels] == [(int(name[9]),) * 2, (1, 1)] * 2
        expected = depthwise(depthwise(x, 0, stride), 2, 1)
    else:
        assert [tuple(k.shape[-2:]) for k in kernels] == [(int(name[9]),) * 2, (1, 1)]
        expected = depthwise(x, 0, stride, dilation=2)
    torch.testing.assert_close(module(x), expected)


def test_pools_are_normalized_in_the_search_alone() -> None:
    def layers(name: str, style: Style) -> list[type[nn.Module]]:
        pool = operations.build(name, 4, 1, style)
        assert not list(pool.parameters())
        return [type(layer) for layer in pool.children()]

    assert layers("max_pool_3x3", FULL) == [nn.MaxPool2d]
    assert layers("avg_pool_3x3", FULL) == [nn.AvgPool2d]
    assert layers("max_pool_3x3", SEARCH) == [nn.MaxPool2d, nn.BatchNorm2d]
    assert layers("avg_pool_3x3", SEARCH) == [nn.AvgPool2d, nn.BatchNorm2d]


@pytest.mark.parametrize("evaluate", ["all", "active", "detached"])
def test_an_edge_is_the_weighted_sum_of_its_operations(evaluate: str) -> None:
    def make(name: str, channels: int, stride: int) -> nn.Module:
        return operations.build(name, channels, stride, SEARCH).double()

    edge = MixedEdge(EdgeParts(OPERATIONS, 4, 2, make))
    x = random_images(2, 4, 6, 6)
    weights = torch.tensor([[0.3, 0.0, 0.2, 0.5, 0.0, -0.4, 1.5, 0.0]], dtype=torch.float64, requires_grad=True)
    output = edge(x, Mixture(weights, evaluate=evaluate).choice(0, 0))  # type: ignore[arg-type]
    outputs = [edge.operations[name](x) for name in OPERATIONS]
    torch.testing.assert_close(output, sum(w * y for w, y in zip(weights[0], outputs, strict=True)))
    upstream = random_images(*output.shape)
    (gradient,) = torch.autograd.grad((output * upstream).sum(), weights, retain_graph=True)
    expected = torch.stack([(y * upstream).sum() for y in outputs])
    if evaluate == "active":
        expected = expected * (weights[0] != 0)
    torch.testing.assert_close(gradient[0], expected)
    inactive = edge.operations["sep_conv_3x3"][1].weight  # type: ignore[index]
    (found,) = torch.autograd.grad((output * upstream).sum(), inactive, allow_unused=True)
    assert (found is None) == (evaluate != "all")


def test_edges_may_have_factors_of_their_own() -> None:
    space = DartsSpace(channels=2, cells=3, stem="small", images=ImageSpec(10, 3, 8))
    supernet = space.supernet(MixedEdge, {})
    weights = initial_weights(supernet, stream("test"), dtype=torch.float64)
    x = random_images(2, 3, 8, 8)
    alphas = {kind: torch.rand(14, 8, generator=stream(kind), dtype=torch.float64) for kind in space.kinds}
    factors = torch.rand(14, generator=stream("factors"), dtype=torch.float64)
    with_factors = {kind: Mixture(alpha, edges=factors) for kind, alpha in alphas.items()}
    multiplied = {kind: Mixture(alpha * factors[:, None]) for kind, alpha in alphas.items()}
    torch.testing.assert_close(
        functional_call(supernet, weights, (x, with_factors)), functional_call(supernet, weights, (x, multiplied))
    )


GENERATOR = stream("scores")


def rows(best: dict[int, dict[str, float]]) -> Tensor:
    scores = torch.zeros(14, 8)
    for edge, values in best.items():
        for name, value in values.items():
            scores[edge, OPERATIONS.index(name)] = value
    return scores


def derive(scores: Tensor, rule: Rule) -> CellGenotype:
    genotype = DartsSpace().derive({"normal": scores, "reduce": torch.rand(14, 8, generator=GENERATOR)}, rule)
    return genotype.normal


def test_top2_takes_the_two_strongest_edges_of_each_node_without_none() -> None:
    scores = rows(
        {
            0: {"none": 0.9, "sep_conv_3x3": 0.2},
            1: {"skip_connect": 0.3},
            2: {"none": 1.0, "dil_conv_3x3": 0.1},
            3: {"max_pool_3x3": 0.6, "avg_pool_3x3": 0.61},
            4: {"sep_conv_5x5": 0.5},
        }
    )
    cell = derive(scores, Rule("top2"))
    assert cell.nodes[0] == (Edge("skip_connect", 1), Edge("sep_conv_3x3", 0))
    assert cell.nodes[1] == (Edge("avg_pool_3x3", 1), Edge("sep_conv_5x5", 2))
    # Of equals the first: max_pool_3x3 is the first operation that is not `none`.
    assert cell.nodes[2] == cell.nodes[3] == (Edge("max_pool_3x3", 0), Edge("max_pool_3x3", 1))
    assert cell.concat == (2, 3, 4, 5)


def test_pairs_may_lie_on_one_edge() -> None:
    scores = rows({0: {"sep_conv_3x3": 0.9, "skip_connect": 0.8}, 1: {"none": 5.0, "dil_conv_5x5": 0.7}})
    assert derive(scores, Rule("pairs")).nodes[0] == (Edge("sep_conv_3x3", 0), Edge("skip_connect", 0))
    assert derive(scores, Rule("top2")).nodes[0] == (Edge("sep_conv_3x3", 0), Edge("dil_conv_5x5", 1))


def test_a_threshold_leaves_nodes_empty_and_what_follows_from_them() -> None:
    scores = rows(
        {
            0: {"sep_conv_3x3": 0.9},
            1: {"skip_connect": 0.85},
            3: {"skip_connect": 0.84},
            # Edges 5 to 8 lead to node 4, from 0, 1, 2, 3; node 3 stays empty.
            8: {"sep_conv_3x3": 0.99},
            # Edges 9 to 13 lead to node 5.
            11: {"sep_conv_5x5": 0.95},
            12: {"sep_conv_5x5": 0.96},
        }
    )
    cell = derive(scores, Rule("threshold", 0.85))
    assert cell.nodes == ((Edge("sep_conv_3x3", 0), Edge("skip_connect", 1)), (), (), (Edge("sep_conv_5x5", 2),))
    assert cell.concat == (2, 5)


def test_a_threshold_that_nothing_reaches_leaves_the_strongest_edge_from_the_inputs() -> None:
    cell = derive(rows({1: {"dil_conv_3x3": 0.4}, 9: {"sep_conv_3x3": 0.5}}), Rule("threshold", 0.85))
    assert cell == CellGenotype(((), (), (), (Edge("sep_conv_3x3", 0),)), (5,))


def test_a_first_node_without_operations_is_left_out() -> None:
    scores = rows({2: {"sep_conv_3x3": 0.9}})
    scores[0:2, 1:] = -torch.inf
    cell = derive(scores, Rule("top2"))
    assert cell.nodes[0] == ()
    assert cell.nodes[1][0] == Edge("sep_conv_3x3", 0)
    scores[2:, :] = -1.0
    cell = derive(scores, Rule("threshold", 0.85))
    assert [len(edges) for edges in cell.nodes] == [0, 1, 0, 0]
    with pytest.raises(ValueError, match="all have been removed"):
        derive(torch.full((14, 8), -torch.inf), Rule("threshold", 0.85))


def test_every_edge_keeps_its_best_and_none_vanishes() -> None:
    scores = rows({0: {"none": 1.0}, 1: {"sep_conv_3x3": 1.0}, 4: {"skip_connect": 1.0}})
    cell = derive(scores, Rule("every-edge"))
    assert cell.nodes[0] == (Edge("sep_conv_3x3", 1),)
    assert cell.nodes[1] == (Edge("skip_connect", 2),)
    assert cell.nodes[2:] == ((), ())


def test_the_derived_network_has_the_searched_structure() -> None:
    """With one operation per edge, stride by stride, supernet and derived network are built of the same layers."""
    nodes = tuple((Edge("sep_conv_3x3", 0), Edge("dil_conv_5x5", 1)) for _ in range(4))
    cell = CellGenotype(nodes, (2, 3, 4, 5))
    network = DartsNetwork(DartsGenotype(cell, cell), DartsDesign(channels=4, cells=3))
    masks = {}
    for kind in ("normal", "reduce"):
        masks[kind] = torch.zeros(14, 8, dtype=torch.bool)
        masks[kind][:, 0] = True
        for edge in (0, 2, 5, 9):
            masks[kind][edge, OPERATIONS.index("sep_conv_3x3")] = True
            masks[kind][edge + 1, OPERATIONS.index("dil_conv_5x5")] = True
    supernet = DartsSpace(channels=4, cells=3).supernet(MixedEdge, masks)

    def convolutions(module: nn.Module) -> list[tuple[object, ...]]:
        layers = [m for m in module.modules() if isinstance(m, nn.Conv2d)]
        return [(m.in_channels, m.out_channels, m.kernel_size, m.stride, m.dilation, m.groups) for m in layers]

    assert convolutions(supernet) == convolutions(network)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cells": 2}, "cells >= 3 must hold, but got cells=2"),
        ({"channels": 0}, "channels >= 1"),
        ({"stem": "mnist"}, "stem must be one of cifar, small, imagenet"),
        ({"images": ImageSpec(size=3)}, "image_size >= 4"),
        ({"stem": "imagenet", "images": ImageSpec(size=16)}, "image_size >= 32"),
    ],
)
def test_sizes_that_cannot_be_built_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DartsSpace(**wrong)  # type: ignore[arg-type]


def test_costs_are_those_of_the_operations_alone() -> None:
    """Against the formula of a separable convolution, c (k^2 + c) per pixel and pass, over all normal cells."""
    space = DartsSpace(channels=4, cells=5, images=ImageSpec(10, 3, 16))
    found = costs(space)["normal"]
    sizes = [(4, 16), (8, 8), (16, 4)]  # channels and pixels of the normal cells 0, 2 and 4
    expected = sum(2 * c * (9 + c) * s * s for c, s in sizes)
    assert found[0, OPERATIONS.index("sep_conv_3x3")] == expected
    assert not found[:, : OPERATIONS.index("sep_conv_3x3")].any()
    assert costs(space, "parameters")["normal"][13, OPERATIONS.index("dil_conv_5x5")] == sum(
        c * (25 + c) for c, _ in sizes
    )


def test_initial_weights_are_torch_own_and_leave_its_generator_alone() -> None:
    module = nn.Sequential(nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64), nn.Flatten(), nn.Linear(50, 200))
    before = torch.get_rng_state()
    weights = initial_weights(module, stream("test"))
    assert torch.equal(before, torch.get_rng_state())
    assert weights.keys() == {n for n, _ in module.named_parameters()}
    for name, fan_in in (("0.weight", 72), ("0.bias", 72), ("3.weight", 50), ("3.bias", 50)):
        own, bound = dict(module.named_parameters())[name], fan_in**-0.5
        assert 0.9 * bound < weights[name].abs().max() <= bound
        assert own.abs().max() <= bound
        assert abs(float(weights[name].std()) - bound / 3**0.5) < 0.15 * bound
    assert bool((weights["1.weight"] == 1).all())
    with pytest.raises(TypeError, match="PReLU"):
        initial_weights(nn.PReLU(), stream("test"))


def test_a_network_from_the_meta_device_gets_memory_and_fresh_statistics() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    initialize(module, stream("test"))
    norm = module[1]
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert not norm.running_mean.any()
    assert bool((norm.running_var == 1).all())
    assert bool(module(torch.ones(2, 3, 2, 2)).isfinite().all())
