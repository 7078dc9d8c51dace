"""MergeNAS: one kernel that is several convolutions."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup import kernels
from smallgroup.methods import Darts, Relaxed
from smallgroup.methods.merge_nas import KernelPart, MergedEdge, MergeNas
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import OPERATIONS, DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import EdgeParts, Mixture, Space
from smallgroup.spaces.weights import initialize
from smallgroup.testing.groups import batches_for, group_of
from tests.group import oracle

CHANNELS = 4
IMAGES = ImageSpec(10, 3, 8)


def edge(stride: int = 1) -> MergedEdge:
    def make(name: str, _: int, stride: int) -> torch.nn.Module:
        kinds = {"max_pool_3x3": torch.nn.MaxPool2d, "avg_pool_3x3": torch.nn.AvgPool2d}
        return kinds[name](3, stride, 1) if name in kinds else torch.nn.AvgPool2d(1, stride)

    made = MergeNas().build_edge(EdgeParts(OPERATIONS, CHANNELS, stride, make))
    assert isinstance(made, MergedEdge)
    initialize(made, stream(0))
    return made.double()


def slow(made: MergedEdge, x: Tensor, weights: list[float]) -> Tensor:
    """Every convolution with its own part of the kernel, by torch's dilation, summed before the pointwise layer."""
    shared, total = made.kernel.weight, torch.zeros(())
    for name, weight in zip(OPERATIONS, weights, strict=True):
        if "conv" in name:
            size, dilation = int(name[-1]), 2 if name.startswith("dil") else 1
            first = (9 - (size - 1) * dilation) // 2
            span = range(first, first + (size - 1) * dilation + 1, dilation)
            own = shared[:, :, list(span)][:, :, :, list(span)]
            padding = (size - 1) * dilation // 2
            total = total + weight * functional.conv2d(
                x.relu(), own, stride=made.stride, padding=padding, dilation=dilation, groups=CHANNELS
            )
    mixed = functional.batch_norm(made.pointwise(total), None, None, training=True)
    for name, weight in zip(OPERATIONS, weights, strict=True):
        if "conv" not in name and name != "none":
            mixed = mixed + weight * made.operations[name](x)
    return mixed


@pytest.mark.parametrize("stride", [1, 2])
def test_a_merged_edge_is_the_sum_of_its_convolutions(stride: int) -> None:
    made, x = edge(stride), torch.randn(3, CHANNELS, 10, 10, generator=stream(1)).double()
    weights = torch.rand(8, generator=stream(2)).double()
    found = made(x, Mixture(weights[None]).choice(0, 0))
    torch.testing.assert_close(found, slow(made, x, weights.tolist()))


def test_footprints() -> None:
    like = torch.zeros(())
    masks = {name: KernelPart(*one).mask(9, like) for name, one in _FOOTPRINTS.items()}
    assert {name: int(mask.sum()) for name, mask in masks.items()} == {"sep3": 9, "sep5": 25, "dil3": 9, "dil5": 25}
    assert bool(masks["dil3"][2, 2])
    assert not bool(masks["dil3"][3, 4])
    assert bool(masks["dil5"][0, 0])
    assert bool(masks["sep3"][3, 3])
    assert all(bool(mask[4, 4]) for mask in masks.values())


_FOOTPRINTS = {"sep3": (3, 1, True), "sep5": (5, 1, True), "dil3": (3, 2, True), "dil5": (5, 2, True)}


def test_a_chosen_operation_and_removed_ones() -> None:
    """One operation alone is its own part of the kernel; without convolutions the others are summed as ever."""
    made, x = edge(), torch.randn(3, CHANNELS, 10, 10, generator=stream(1)).double()
    for name in ("dil_conv_3x3", "avg_pool_3x3"):
        weights = [float(name == other) for other in OPERATIONS]
        mixture = Mixture(torch.tensor([weights]).double(), evaluate="active")
        found = made(x, mixture.choice(0, 0))
        expected = slow(made, x, weights) if "conv" in name else made.operations[name](x)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("space", "saved"),
    [
        # On 6 edges of each cell the 1x1 kernel, and two biases.
        (NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES), [6 * (c**2 + 2 * c) for c in (4, 8, 16)]),
        # On 14 edges 3 x 9 + 3 x 25 of C depthwise weights become 81, and 6 C^2 pointwise ones C^2.
        (DartsSpace(channels=4, cells=3, images=IMAGES), [14 * (21 * c + 5 * c**2) for c in (4, 8, 16)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_supernets_are_smaller(space: Space, saved: list[int]) -> None:
    merged, plain = (
        sum(p.numel() for p in Relaxed(space, method).supernet.parameters()) for method in (MergeNas(), Darts())
    )
    assert plain - merged == sum(saved)


def test_groups_follow_the_unrolled_problem_where_kernels_are_merged() -> None:
    """The smooth space has nothing to merge."""
    space = NasBench201Space(channels=2, cells_per_stage=1, images=ImageSpec(4, 3, 8))
    batches = batches_for(space)
    group = group_of(space, [MergeNas(), MergeNas()], hypergradient="exact", v_lr=0.1, w_lr=0.1)
    found = group.architecture_gradients(*batches, parts=True)
    step = oracle.plain(0.1)
    with kernels.using("plain"):
        expected = oracle.term_gradients(group.learners, batches, lam=1.0, step_v=step, step_w=step)
    for k in range(2):
        for term in ("direct", "own", "cross", "label"):
            assert oracle.relative(found[k][term], expected[k][term]) < 1e-9, (k, term)
