"""The chain space: sizes against closed forms, its notation, and every command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.func import functional_call

from smallgroup.cli import main
from smallgroup.config import resolve
from smallgroup.methods import METHODS, Darts, DartsMinus, Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import definition_of
from smallgroup.spaces.costs import costs
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.design import IMAGES
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.genotypes import resolve as genotype_of
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.networks import build_network, design_of
from smallgroup.spaces.proxyless.design import ProxylessDesign
from smallgroup.spaces.proxyless.genotype import Chain
from smallgroup.spaces.proxyless.names import KIND, OPERATIONS, WIDTHS, layers
from smallgroup.spaces.proxyless.space import ProxylessSpace
from smallgroup.spaces.space import Mixture
from smallgroup.testing import DefinitionContract
from smallgroup.testing.groups import batches_for, group_of
from smallgroup.testing.small import small_space

MIXED = Chain(tuple(("mbconv3_3x3", "none", "mbconv6_7x7", "mbconv3_5x5")[layer % 4] for layer in range(21)))
REFUSED = {
    "pc-darts": "pc-darts needs edges that keep the number of channels",
    "p-darts": "p-darts makes the network deeper",
}
ALWAYS = {*REFUSED, "darts", "darts-minus", "gdas"}
STAGES = [(24, 4), (40, 4), (80, 4), (96, 4), (192, 4), (320, 1)]
"""Channels and layers, for 16 of the first block, as in the paper."""


class TestProxyless(DefinitionContract):
    name = "proxyless"


def block(inputs: int, outputs: int, kernel: int, expansion: int) -> tuple[int, int, int]:
    """Weights of the widening, of the depthwise filter and of the narrowing convolution."""
    wide = expansion * inputs
    return inputs * wide if expansion > 1 else 0, kernel * kernel * wide, wide * outputs


def closed_form(chain: Chain, scale: int, size: int, strides: tuple[int, ...], classes: int) -> tuple[int, int]:
    """Parameters and multiply-adds of a network of 16 / scale channels; a norm has two parameters per channel."""
    stem, *firsts = strides
    c = 16 // scale
    size = -(-size // stem)
    weights, norms = 27 * 2 * c + sum(block(2 * c, c, 3, 1)), 2 * c + 2 * c + c
    operations = weights * size * size
    inputs, layer = c, 0
    for (width, count), first in zip(STAGES, firsts, strict=True):
        for number in range(count):
            outputs, stride, name = width // scale, first if number == 0 else 1, chain.operations[layer]
            layer += 1
            if name != "none":
                expansion, kernel = int(name[6]), int(name[-1])
                widening, filtering, narrowing = block(inputs, outputs, kernel, expansion)
                operations += widening * size * size
                size = -(-size // stride)
                operations += (filtering + narrowing) * size * size
                weights += widening + filtering + narrowing
                norms += 2 * expansion * inputs + outputs
            inputs = outputs
    head = 1280 // scale
    weights += inputs * head + head * classes
    operations += inputs * head * size * size + head * classes
    return weights + 2 * (norms + head) + classes, operations


@pytest.mark.parametrize(
    ("dataset", "strides"), [("imagenet", (2, 2, 2, 2, 1, 2, 1)), ("cifar10", (1, 1, 2, 2, 1, 2, 1))]
)
@pytest.mark.parametrize("chain", [MIXED, Chain(("mbconv6_3x3",) * 21)], ids=["mixed", "all mbconv6_3x3"])
def test_networks_have_the_size_of_the_closed_form(chain: Chain, dataset: str, strides: tuple[int, ...]) -> None:
    network = build_network(chain, dataset, device="meta")
    images = IMAGES[dataset]
    expected = closed_form(chain, 1, images.size, strides, images.classes)
    assert (parameters(network), multiply_adds(network, images.size)) == expected


def test_small_networks_and_images_have_too() -> None:
    design = ProxylessDesign(images=ImageSpec(10, 3, 8), channels=4)
    network = build_network(MIXED, design, device="meta")
    expected = closed_form(MIXED, 4, 8, (1, 1, 1, 2, 1, 2, 1), 10)
    assert (parameters(network), multiply_adds(network, 8)) == expected


# Of the network that the release loads for each of its configurations.
@pytest.mark.parametrize(
    ("name", "widths", "expected"),
    [
        ("ProxylessNAS_gpu", "gpu", 7_119_848),
        ("ProxylessNAS_cpu", "cpu", 4_361_648),
        ("ProxylessNAS_mobile", "mobile", 4_080_512),
        ("ProxylessNAS_mobile", "mobile-14", 6_857_568),
    ],
)
def test_published_chains_have_the_parameters_of_their_release(name: str, widths: str, expected: int) -> None:
    chain = genotype_of(name)[1]
    design = ProxylessDesign(images=IMAGES["imagenet"], channels=WIDTHS[widths].first, widths=widths)
    assert parameters(build_network(chain, design, device="meta")) == expected
    if widths != "mobile-14":
        assert design_of(chain, "imagenet") == design
    module = build_network(chain, replace(design, channels=2, images=ImageSpec(10, 3, 32)))
    assert module.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_the_supernet_has_all_blocks_of_all_layers() -> None:
    supernet = ProxylessSpace(16, "cifar", ImageSpec()).supernet(MixedEdge, {})
    total, inputs = 27 * 32 + 2 * 32 + sum(block(32, 16, 3, 1)), 16
    for width, count in STAGES:
        for _ in range(count):
            total += sum(sum(block(inputs, width, kernel, expansion)) for kernel in (3, 5, 7) for expansion in (3, 6))
            inputs = width
    total += 320 * 1280 + 2 * 1280 + 1280 * 10 + 10
    assert sum(parameter.numel() for parameter in supernet.parameters()) == total


def test_the_first_layer_of_a_stage_cannot_be_left_out() -> None:
    assert [layer for layer in range(21) if "none" not in KIND.offered(layer)] == [0, 4, 8, 12, 16, 20]
    assert [not size.shortcut for size in layers(16, "imagenet")] == ["none" not in KIND.offered(e) for e in range(21)]
    with pytest.raises(ValueError, match="layer 5 begins a stage and cannot be left out, but it is none"):
        Chain((*MIXED.operations[:4], "none", *MIXED.operations[5:]))
    with pytest.raises(ValueError, match="must have 21 layers, but has 1"):
        Chain(("mbconv3_3x3",))
    with pytest.raises(ValueError, match=r"layer 2 must be one of none, .*, but it is 'conv'"):
        Chain(("mbconv3_3x3", "conv", *MIXED.operations[2:]))


def test_none_leaves_a_block_out() -> None:
    """In the supernet its output is its input; the derived network does not have it at all."""
    space = small_space("proxyless")
    supernet: Any = space.supernet(MixedEdge, {})
    relaxed = Relaxed(space, Darts())
    weights, images = relaxed.initial_weights("w", dtype=torch.float64), batches_for(space)[0][0]
    chosen = space.chosen(MIXED)["chain"].double()
    seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    edge = supernet.chain.edges[1]
    edge.register_forward_hook(lambda _, inputs, output: seen.__setitem__(0, (inputs[0], output)))
    supernet.chain.edges[2].register_forward_hook(lambda _, inputs, output: seen.__setitem__(1, (inputs[0], output)))
    functional_call(supernet, weights, (images, {"chain": Mixture(chosen, evaluate="active")}))
    assert torch.equal(seen[0][0], seen[1][0])
    network: Any = build_network(MIXED, "cifar10", device="meta")
    assert len(network.blocks) == 21 - MIXED.skips == 16


def test_every_rule_takes_the_best_operation_and_a_threshold_leaves_layers_out() -> None:
    space, generator = small_space("proxyless"), stream("test")
    for number in range(2_000):
        rule = Rule(("top2", "pairs", "every-edge", "threshold")[number % 4], 0.9)
        scores = torch.rand(KIND.shape, generator=generator)
        chain: Any = space.derive({"chain": scores}, rule)
        for layer, (row, name) in enumerate(zip(scores.tolist(), chain.operations, strict=True)):
            known = dict(zip(OPERATIONS, row, strict=True))
            best = max(KIND.offered(layer), key=known.__getitem__)
            may_go = rule.name == "threshold" and known[best] < 0.9 and "none" in KIND.offered(layer)
            assert name == ("none" if may_go else best)


def test_the_notation_is_read_back_as_are_the_names_of_the_release() -> None:
    assert genotype_of(str(MIXED)) == ("genotype", MIXED)
    theirs = ",".join("Zero" if name == "none" else f"{name[-3:]}_MBConv{name[6]}" for name in MIXED.operations)
    assert theirs.startswith("3x3_MBConv3,Zero,7x7_MBConv6")
    assert genotype_of(f"  {theirs} ")[1] == MIXED
    with pytest.raises(ValueError, match="must have 21 layers"):
        genotype_of("mbconv3_3x3,none")


def test_costs_are_those_of_the_blocks() -> None:
    """Multiply-adds of a layer without the expansion's 1x1 twice, counted for 8x8 images."""
    table = costs(small_space("proxyless"))["chain"]
    inputs, outputs, stride = layers(2, "small")[0]
    widening, filtering, narrowing = block(inputs, outputs, 3, 3)
    assert stride == 1
    assert float(table[0, OPERATIONS.index("mbconv3_3x3")]) == 64 * (widening + filtering + narrowing)
    assert float(table[:, 0].sum()) == 0


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in {*REFUSED, "darts", "darts-minus", "gdas"} else pytest.mark.slow)
        for name in METHODS
    ],
)
def test_every_method_searches_it_or_says_why_not(method: str) -> None:
    space = small_space("proxyless")
    if method in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[method]) as refusal:
            group_of(space, [METHODS[method]()])
        assert "\n" not in str(refusal.value)
        return
    group = group_of(space, [METHODS[method]() for _ in range(2)], torch.float32, hypergradient="first-order")
    report = group.step(*batches_for(space, torch.float32, size=4))
    for learner, told in zip(group.learners, report.learners, strict=True):
        assert told.norms["direct"] > 0
        assert isinstance(learner.apply, Relaxed)
        assert isinstance(learner.apply.derive(learner.architecture), Chain)


def test_the_auxiliary_skip_of_darts_minus_is_where_a_layer_may_be_left_out() -> None:
    """Beside the shortcut: a layer x + f(x) becomes x + f(x) + beta x."""
    relaxed = Relaxed(small_space("proxyless"), DartsMinus())
    weights, architecture = relaxed.initial_weights("w"), relaxed.initial_architecture()
    chain: Any = relaxed.supernet.get_submodule("chain")
    assert [edge.auxiliary is not None for edge in chain.edges] == chain.shortcuts
    assert sum(chain.shortcuts) == 15
    relaxed.method.state["beta"] = torch.tensor(0.3)
    images, first = batches_for(small_space("proxyless"), torch.float32)[0][0], chain.shortcuts.index(True)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    chain.edges[first].register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
    for beta in (0.3, 0.0):  # no layer before this one sees it
        relaxed.method.state["beta"] = torch.tensor(beta)
        relaxed(weights, architecture, images, phase="w")
    (inputs, with_beta), (_, without) = seen
    torch.testing.assert_close(with_beta - without, 0.3 * inputs)


@pytest.mark.parametrize("recipe", ["quick", "paper", "released-code"])
def test_recipes_have_a_size_for_it(recipe: str) -> None:
    config = resolve({"recipe": recipe, "space": "proxyless", "data": {"dataset": "cifar10"}})
    channels = (config.space.channels, config.training.network.channels)
    assert channels == ((2, 4) if recipe == "quick" else (16, 16))
    assert config.training.drop_path == 0


def test_a_search_its_training_and_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, sizes = tmp_path / "run", {"train": 8, "unlabeled": 8, "validation": 8}
    config = {
        "space": "proxyless",
        "learners": [{"method": "darts"}, {"method": "gdas"}],
        "data": {"labeled_fraction": 0.2},
        "search": {"epochs": 2, "steps_per_epoch": 1, "v_warmup": 0.0, "architecture_warmup": 0.0, "batch_size": sizes},
        "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "network": {"channels": 2}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert main(["search", "--config", str(tmp_path / "config.yaml"), "--out", str(folder)]) == 0
    assert main(["train", str(folder)]) == 0
    assert main(["export", str(folder), "--format", "pt2"]) == 0
    assert main(["show", str(folder)]) == 0
    capsys.readouterr()
    assert main(["describe", str(folder), "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert described["space"] == "proxyless"
    assert json.loads((folder / "training" / "result.json").read_text())["parameters"] == described["parameters"]
    assert main(["describe", str(MIXED), "--network", "imagenet"]) == 0
    drawn = capsys.readouterr().out
    assert max(map(len, drawn.splitlines())) <= 80
    assert "   2  none         left out" in drawn
    page = (folder / "report.html").read_text()
    assert definition_of("proxyless").kinds["chain"].title in page
    assert "mbconv" in page
