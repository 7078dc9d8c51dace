"""The auxiliary head: where it sits, when it is at work, what it trains, what it leaves alone."""

import copy

import pytest
import torch
from torch import Tensor, nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.count import parameters
from smallgroup.spaces.darts.auxiliary import AuxiliaryHead, window
from smallgroup.spaces.darts.design import NETWORKS, DartsDesign
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.networks import build_network, design_of
from smallgroup.spaces.outputs import Outputs

DARTS_V2 = published()["DARTS_V2"]


def small(cells: int = 5, auxiliary: str = "two-norms", image_size: int = 8) -> DartsNetwork:
    design = DartsDesign(images=ImageSpec(7, 1, image_size), channels=4, cells=cells, auxiliary=auxiliary)
    network = build_network(DARTS_V2, design)
    assert isinstance(network, DartsNetwork)
    return network


def random_images(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("cells", "position"), [(3, 2), (4, 2), (5, 3), (8, 5), (14, 9), (20, 13)])
def test_it_is_given_the_output_of_the_cell_two_thirds_up(cells: int, position: int) -> None:
    network = small(cells)
    assert network.auxiliary is not None
    assert network.auxiliary_cell == position
    outputs: list[Tensor] = []
    given: list[Tensor] = []
    for cell in network.cells:
        cell.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    network.auxiliary.register_forward_pre_hook(lambda _module, inputs: given.append(inputs[0]))
    result = network(random_images(3, 1, 8, 8))
    assert [index for index, output in enumerate(outputs) if output is given[0]] == [position]
    assert result.logits.shape == result.auxiliary.shape == (3, 7)
    assert not torch.equal(result.logits, result.auxiliary)


@pytest.mark.parametrize(("name", "cell", "channels"), [("cifar100", 13, 576), ("imagenet", 9, 768)])
def test_the_heads_of_the_papers_networks(name: str, cell: int, channels: int) -> None:
    design = design_of(DARTS_V2, name, auxiliary=True)
    network = build_network(DARTS_V2, design, device="meta")
    assert isinstance(network, DartsNetwork)
    assert network.auxiliary_cell == cell
    assert network.auxiliary is not None
    assert network.auxiliary.features[0].in_channels == channels
    assert isinstance(design, DartsDesign)
    assert network.auxiliary.classifier.out_features == design.images.classes
    assert design.smallest_map == {"cifar100": 8, "imagenet": 7}[name]


def reached(network: DartsNetwork, loss: Tensor) -> set[str]:
    """The parts of the network whose weights get a gradient that is not zero."""
    network.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    names = set()
    for name, weight in network.named_parameters():
        if weight.grad is not None and weight.grad.any():
            part, index, *_ = name.split(".")
            names.add(f"cell {index}" if part == "cells" else part)
    return names


def test_its_loss_trains_what_lies_below_it_and_nothing_else() -> None:
    network = small(8)
    below = {"stem", *(f"cell {index}" for index in range(6))}
    images = random_images(4, 1, 8, 8)
    result = network(images)
    assert reached(network, result.auxiliary.square().sum()) == below | {"auxiliary"}
    result = network(images)
    assert reached(network, result.logits.square().sum()) == below | {"cell 6", "cell 7", "classifier"}


def test_every_weight_of_the_cells_below_is_reached() -> None:
    network = small(8)
    network(random_images(4, 1, 8, 8)).auxiliary.square().sum().backward()
    without = [name for name, weight in network.named_parameters() if weight.grad is None]
    assert without
    assert all(name.startswith(("cells.6.", "cells.7.", "classifier.")) for name in without)


def test_in_eval_mode_it_does_not_run() -> None:
    network = small().eval()
    assert network.auxiliary is not None
    network.auxiliary.register_forward_pre_hook(lambda *_: pytest.fail("the head ran"))
    images = random_images(3, 1, 8, 8)
    result = network(images)
    assert isinstance(result, Tensor)
    assert result.shape == (3, 7)
    without = small(auxiliary="none").eval()
    assert torch.equal(without(images), result)


def test_the_rest_of_the_network_is_the_same_with_and_without_it() -> None:
    """Also in training, and from the first weight on: the head is drawn last."""
    networks = [small(auxiliary=kind) for kind in ("none", "one-norm", "two-norms")]
    images = random_images(3, 1, 8, 8)
    logits = [Outputs.of(network(images)).logits for network in networks]
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])
    plain = networks[0].state_dict()
    for network in networks[1:]:
        state = network.state_dict()
        assert {name for name in state if not name.startswith("auxiliary.")} == set(plain)
        assert all(torch.equal(state[name], plain[name]) for name in plain)


def test_what_a_pass_gives_in_every_mode() -> None:
    images = random_images(3, 1, 8, 8)
    with_head, without = small(), small(auxiliary="none")
    logits, auxiliary = Outputs.of(with_head(images))
    assert auxiliary is not None
    assert auxiliary.requires_grad
    assert isinstance(with_head(images), Outputs)
    assert isinstance(without(images), Tensor)
    assert Outputs.of(without(images)).auxiliary is None
    assert torch.equal(Outputs.of(without(images)).logits, logits)
    assert Outputs.of(with_head.eval()(images)).auxiliary is None


def test_kinds_of_heads() -> None:
    norms = {}
    for kind in ("none", "one-norm", "two-norms"):
        head = small(auxiliary=kind).auxiliary
        assert (head is None) == (kind == "none")
        norms[kind] = [part.num_features for part in head.modules() if isinstance(part, nn.BatchNorm2d)] if head else []
    assert norms == {"none": [], "one-norm": [128], "two-norms": [128, 768]}
    assert {name: design.auxiliary for name, design in NETWORKS.items()} == {
        "cifar10": "two-norms",
        "cifar100": "two-norms",
        "imagenet": "one-norm",
    }


def test_it_is_counted_if_asked_for() -> None:
    network, without = small(), small(auxiliary="none")
    head = 64 * 128 + 256 + 4 * 128 * 768 + 1536 + 768 * 7 + 7
    assert parameters(network) == parameters(without) == parameters(without, auxiliary=True)
    assert parameters(network, auxiliary=True) == parameters(network) + head
    assert parameters(nn.Sequential(nn.Linear(2, 3), copy.deepcopy(network))) == 9 + parameters(network)


def test_two_windows_reach_from_border_to_border() -> None:
    assert {side: (window(side), side - window(side)) for side in (2, 3, 4, 6, 7, 8, 9, 10, 11, 16)} == {
        2: (1, 1),
        3: (2, 1),
        4: (3, 1),
        6: (5, 1),
        7: (5, 2),
        8: (5, 3),
        9: (5, 4),
        10: (5, 5),
        11: (6, 5),
        16: (8, 8),
    }


@pytest.mark.parametrize("sides", [(2, 2), (3, 2), (5, 8), (7, 7), (9, 30)])
def test_maps_of_any_size(sides: tuple[int, int]) -> None:
    head = AuxiliaryHead(4, 3, second_norm=True).eval()
    maps = random_images(2, 4, *sides)
    assert head(maps).shape == (2, 3)
    for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        changed = maps.clone()
        changed[:, :, row, column] += 10
        assert not torch.equal(head(changed), head(maps)), "a corner is not seen"


def test_maps_without_room_for_it_are_refused() -> None:
    message = "needs at least 2x2 pixels after the second reduction, but the images are so small that 1x1 are left"
    with pytest.raises(ValueError, match=message):
        small(image_size=4)
    assert small(image_size=5)(random_images(2, 1, 5, 5)).auxiliary.shape == (2, 7)
    with pytest.raises(ValueError, match=message):
        small()(random_images(2, 1, 4, 4))
    with pytest.raises(ValueError, match="auxiliary must be one of none, one-norm, two-norms, but got 'cifar'"):
        DartsNetwork(DARTS_V2, DartsDesign(channels=36, auxiliary="cifar"))
