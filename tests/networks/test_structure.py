"""The network is the one its genotype says: compared with arithmetic written down apart."""

import pytest
import torch

from smallgroup.networks import DartsNetwork, NetworkDesign, Outputs, build_network
from smallgroup.spaces.genotypes import published
from tests.networks.oracle import head_of, logits_of, random_genotype, randomise

GENOTYPES = {str(seed): random_genotype(seed) for seed in range(2)}
GENOTYPES |= {name: published()[name] for name in ("NASNet_A", "AmoebaNet_A")}


def random_images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", GENOTYPES)
@pytest.mark.parametrize(("stem", "size"), [("cifar", 16), ("small", 8), ("imagenet", 64)])
def test_every_cell_and_the_logits(name: str, stem: str, size: int) -> None:
    design = NetworkDesign(classes=5, image_channels=2, image_size=size, channels=4, cells=5, stem=stem)
    network = build_network(GENOTYPES[name], design).double()
    assert isinstance(network, DartsNetwork)
    randomise(network)
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
    design = NetworkDesign(classes=5, image_size=size, channels=2, cells=3, stem=stem, auxiliary=head)
    network = build_network(published()["DARTS_V2"], design).double()
    assert isinstance(network, DartsNetwork)
    randomise(network)
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
