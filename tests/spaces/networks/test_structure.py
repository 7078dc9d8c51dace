"""The network is the one its genotype says: compared with arithmetic written down apart."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.count import multiply_adds
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.nas_bench_201.cell import Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.nas_bench_201.network import NasBench201Network
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs
from tests.spaces.networks.oracle import head_of, logits_of, random_genotype, randomize

GENOTYPES = {str(seed): random_genotype(seed) for seed in range(2)}
GENOTYPES |= {name: published()[name] for name in ("NASNet_A", "AmoebaNet_A")}


def random_images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", GENOTYPES)
@pytest.mark.parametrize(("stem", "size"), [("cifar", 16), ("small", 8), ("imagenet", 64)])
def test_every_cell_and_the_logits(name: str, stem: str, size: int) -> None:
    design = DartsDesign(images=ImageSpec(5, 2, size), channels=4, cells=5, stem=stem)
    network = build_network(GENOTYPES[name], design).double()
    assert isinstance(network, DartsNetwork)
    randomize(network)
    outputs: list[torch.Tensor] = []
    for cell in network.cells:
        cell.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    images = random_images(2, 2, size, size)
    with torch.no_grad():
        outputs.append(network.eval()(images))
    expected = logits_of(network.state_dict(), GENOTYPES[name], images, cells=5, stem=stem)
    assert len(outputs) == len(expected) == 6
    for ours, theirs in zip(outputs, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("second_norm", [False, True])
@pytest.mark.parametrize(("stem", "size", "side", "stride"), [("cifar", 32, 8, 3), ("imagenet", 224, 7, 2)])
def test_the_auxiliary_head_as_papers_write_it(
    stem: str, size: int, side: int, stride: int, *, second_norm: bool
) -> None:
    head = "two-norms" if second_norm else "one-norm"
    design = DartsDesign(images=ImageSpec(5, 3, size), channels=2, cells=3, stem=stem, auxiliary=head)
    network = build_network(published()["DARTS_V2"], design).double()
    assert isinstance(network, DartsNetwork)
    randomize(network)
    network.eval()
    maps = random_images(2, 32, side, side)
    assert network.auxiliary is not None
    with torch.no_grad():
        ours = network.auxiliary(maps)
    torch.testing.assert_close(ours, head_of(network.state_dict(), maps, stride=stride, second_norm=second_norm))
    seen: list[torch.Tensor] = []
    network.auxiliary.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    result = network.train()(random_images(2, 3, size, size))
    assert isinstance(result, Outputs)
    assert seen[0].shape == (2, 32, side, side)


STEM = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.ReLU)


@pytest.mark.parametrize(("halvings", "size"), [(0, 32), (1, 16), (2, 8), (3, 4)])
def test_a_stem_that_halves_makes_everything_behind_it_cheaper(halvings: int, size: int) -> None:
    """Behind the stem every multiply-add is of a convolution, a quarter of which is left by each halving."""
    cell = Cell.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|skip_connect~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|")
    design = NasBench201Design(images=ImageSpec(10, 3, 32), channels=8, cells_per_stage=1, halvings=halvings)
    network = build_network(cell, design)
    assert isinstance(network, NasBench201Network)
    seen: list[Tensor] = []
    first = next(block for block in network.body.children() if not isinstance(block, STEM))
    first.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    network(torch.zeros(2, 3, 32, 32))
    assert seen[0].shape == (2, 8, size, size)
    widths = [8 >> (max(1, halvings) - 1 - number) for number in range(max(1, halvings))]
    stem = sum(9 * b * a * (32 >> n) ** 2 for n, (a, b) in enumerate(pairwise([3, *widths])))
    head = 10 * 32
    whole = build_network(cell, replace(design, halvings=0))
    behind = multiply_adds(whole, 32) - 9 * 8 * 3 * 32**2 - head
    assert multiply_adds(network, 32) == stem + behind // 4**halvings + head


def test_a_stem_halves_a_moderate_number_of_times() -> None:
    with pytest.raises(ValueError, match="halvings <= 6 must hold, but got halvings=7"):
        NasBench201Design(images=ImageSpec(10, 3, 32), channels=8, halvings=7)


@pytest.mark.parametrize("size", [32, 15])
def test_a_reduction_by_pooling_is_a_convolution_and_a_maximum(size: int) -> None:
    cell = Cell(("skip_connect", "none", "none", "none", "skip_connect", "none"))
    design = NasBench201Design(images=ImageSpec(3, 3, size), channels=4, cells_per_stage=1, reduction="pool")
    network = build_network(cell, design).double()
    assert isinstance(network, NasBench201Network)
    randomize(network)
    network.eval()
    images = random_images(2, 3, size, size)
    weights = network.state_dict()

    def normed(x: Tensor, name: str) -> Tensor:
        shape = (1, -1, 1, 1)
        scale, shift, mean, variance = (
            weights[f"{name}.{part}"].view(shape) for part in ("weight", "bias", "running_mean", "running_var")
        )
        found: Tensor = (x - mean) / (variance + 1e-5).sqrt() * scale + shift
        return found

    x = normed(conv2d(images, weights["body.0.weight"], padding=1), "body.1")
    for place in (3, 5):  # the cells pass on what they get
        x = normed(conv2d(x.relu(), weights[f"body.{place}.0.1.weight"], padding=1), f"body.{place}.0.2")
        x = max_pool2d(x, 2, ceil_mode=True)
    logits = normed(x, "body.7").relu().mean((2, 3)) @ weights["classifier.weight"].T + weights["classifier.bias"]
    with torch.no_grad():
        torch.testing.assert_close(network(images), logits)


@pytest.mark.parametrize(("stages", "pooling"), [(1, "average"), (2, "maximum"), (4, "maximum")])
def test_stages_and_the_pooling_behind_them(stages: int, pooling: str) -> None:
    """Each stage has half the size and twice the channels; the last map becomes a vector by its average or maximum."""
    cell = Cell(("nor_conv_1x1",) * 6)
    design = NasBench201Design(
        images=ImageSpec(3, 3, 16), channels=4, cells_per_stage=2, stages=stages, pooling=pooling
    )
    network = build_network(cell, design).eval()
    assert isinstance(network, NasBench201Network)
    maps: list[Tensor] = []
    body = list(network.body.children())
    body[-2].register_forward_hook(lambda _module, _inputs, output: maps.append(output))
    logits = network(torch.rand(2, 3, 16, 16))
    width, side = 4 * 2 ** (stages - 1), 16 >> (stages - 1)
    assert maps[0].shape == (2, width, side, side)
    vectors = maps[0].mean((2, 3)) if pooling == "average" else maps[0].amax((2, 3))
    torch.testing.assert_close(logits, network.classifier(vectors))
    assert sum(type(block).__name__ == "_Cell" for block in body) == 2 * stages
