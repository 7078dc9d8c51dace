"""Drop path: what is dropped, how often, for which images; and that it is a function of its key."""

import random

import pytest
import torch
from torch import Tensor, nn

from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.network import DartsNetwork
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.drop_path import Key, draw_paths
from smallgroup.spaces.layers import FactorizedReduce, Pool
from smallgroup.spaces.nas_bench_201 import Cell
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.nas_bench_201.network import NasBench201Network
from smallgroup.spaces.networks import build_network

pytestmark = pytest.mark.usefixtures("plain_kernels")  # the tests look at the outputs of single operations
DARTS_V2 = published()["DARTS_V2"]
KEY: Key = (0, "train", 3, 14)


def single(*edges: tuple[str, int]) -> CellGenotype:
    """Nodes of one edge each: what the edge gives is the node, and stands in the output as it is."""
    return CellGenotype(tuple((Edge(*edge),) for edge in edges), (2, 3, 4, 5))


SINGLE = DartsGenotype(
    single(("avg_pool_3x3", 0), ("skip_connect", 1), ("dil_conv_3x3", 0), ("sep_conv_3x3", 1)),
    single(("skip_connect", 0), ("max_pool_3x3", 1), ("skip_connect", 2), ("skip_connect", 1)),
)
IDENTITIES = {"normal": [1], "reduce": [2]}


def build(genotype: DartsGenotype = SINGLE, drop_path: float = 0.25, auxiliary: str = "none") -> DartsNetwork:
    design = DartsDesign(images=ImageSpec(5, 1, 8), channels=4, cells=4, auxiliary=auxiliary, drop_path=drop_path)
    network = build_network(genotype, design)
    assert isinstance(network, DartsNetwork)
    return network


def random_images(count: int) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def multipliers(network: DartsNetwork, images: Tensor, key: Key | None) -> Tensor:
    """What each edge was multiplied by for each image, [cells, edges, n], as the output of each cell tells."""
    terms: list[Tensor] = []
    nodes: list[Tensor] = []
    for cell in network.cells:
        operations = cell.operations
        assert isinstance(operations, nn.ModuleList)
        for operation in operations:
            operation.register_forward_hook(lambda _module, _inputs, output: terms.append(output))
        cell.register_forward_hook(lambda _module, _inputs, output: nodes.extend(output.chunk(4, dim=1)))
    with torch.no_grad():
        network(images, key)
    assert len(terms) == len(nodes) == 4 * len(network.cells)
    found = []
    for term, node in zip(terms, nodes, strict=True):
        size = term.square().sum((1, 2, 3))
        # A skip hands on the zeros of a node that was dropped: times what, nobody can tell.
        factors = torch.where(size > 0, (node * term).sum((1, 2, 3)) / size, 1)
        torch.testing.assert_close(node, term * factors[:, None, None, None])
        found.append(factors)
    return torch.stack(found).reshape(len(network.cells), 4, -1)


def test_operations_are_dropped_for_some_images_and_scaled_for_the_others() -> None:
    network = build(drop_path=0.25)
    found = multipliers(network, random_images(256), KEY)
    columns = []
    for index, kind in enumerate(("normal", "reduce", "reduce", "normal")):
        for edge in range(4):
            factors = found[index, edge]
            if edge in IDENTITIES[kind]:
                torch.testing.assert_close(factors, torch.ones(256), msg="a skip that is a mere copy was touched")
                continue
            dropped = factors == 0
            torch.testing.assert_close(factors[~dropped], torch.full_like(factors[~dropped], 4 / 3))
            # Five standard deviations of a binomial share.
            assert abs(dropped.float().mean().item() - 0.25) < 5 * (0.25 * 0.75 / 256) ** 0.5
            columns.append(dropped)
    assert len(columns) == 4 * 3
    assert len({tuple(column.tolist()) for column in columns}) == len(columns), "edges were dropped together"
    share = torch.stack(columns).float().mean().item()
    assert abs(share - 0.25) < 5 * (0.25 * 0.75 / (256 * 12)) ** 0.5


def test_the_kinds_of_skips_in_the_network_above() -> None:
    """A skip that halves the size is a convolution; without one among the edges, the test above would say less."""
    cell = build().cells[1]
    assert isinstance(cell.operations, nn.ModuleList)
    assert [type(operation) for operation in cell.operations] == [
        FactorizedReduce,
        Pool,
        nn.Identity,
        FactorizedReduce,
    ]


def test_a_node_of_two_edges() -> None:
    """Each edge has a draw of its own; the identity beside a dropped operation stays."""
    pair = CellGenotype(((Edge("max_pool_3x3", 0), Edge("skip_connect", 1)),) * 4, (2, 3, 4, 5))
    network = build(DartsGenotype(pair, SINGLE.reduce), drop_path=0.5)
    cell = network.cells[0]
    seen: list[Tensor] = []
    operations = cell.operations
    assert isinstance(operations, nn.ModuleList)
    operations[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    operations[1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    cell.register_forward_hook(lambda _module, _inputs, output: seen.append(output[:, :4]))
    network(random_images(32), KEY)
    pooled, copied, node = seen
    alone = [bool(torch.equal(node[i], copied[i])) for i in range(32)]
    assert 4 < sum(alone) < 28
    for image, dropped in enumerate(alone):
        torch.testing.assert_close(node[image], copied[image] + (0 if dropped else 2) * pooled[image])


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_draws(probability: float) -> None:
    kept = draw_paths(2000, 60, probability, KEY)
    assert kept.shape == (2000, 60)
    assert set(kept.flatten().tolist()) == {0.0, 1 / (1 - probability)}
    dropped = (kept == 0).double()
    deviation = (probability * (1 - probability)) ** 0.5
    assert abs(dropped.mean().item() - probability) < 5 * deviation / (2000 * 60) ** 0.5
    assert (dropped.mean(0) - probability).abs().max() < 5 * deviation / 2000**0.5, "some edge is dropped too often"
    assert (dropped.mean(1) - probability).abs().max() < 5 * deviation / 60**0.5, "some image is dropped too often"
    together = torch.corrcoef(dropped.T).fill_diagonal_(0)
    assert together.abs().max() < 5 / 2000**0.5, "some edges are dropped together"


def test_without_probability_nothing_happens_to_the_bits() -> None:
    images = random_images(16)
    network, zero, dropping = build(drop_path=0.0), build(drop_path=0.0), build(drop_path=0.5)
    zero.drop_path = 0.0
    plain = network(images)
    assert torch.equal(zero(images, KEY), plain)
    assert not torch.equal(dropping(images, KEY), plain)
    assert torch.equal(multipliers(build(drop_path=0.0), images, None), torch.ones(4, 4, 16))


def test_in_eval_mode_nothing_is_dropped() -> None:
    images = random_images(16)
    network, plain = build(drop_path=0.9).eval(), build(drop_path=0.0).eval()
    assert torch.equal(network(images), plain(images))
    assert torch.equal(network(images, KEY), plain(images))


def test_the_same_key_drops_the_same_and_another_key_something_else() -> None:
    images = random_images(16)
    network = build(DARTS_V2, drop_path=0.3)
    first = network(images, KEY)
    others = [(1, *KEY[1:]), (0, "test", 3, 14), (*KEY[:3], 15), (*KEY[:2], 4, 14), (*KEY, 0)]
    for other in others:
        assert not torch.equal(network(images, other), first)
    assert torch.equal(network(images, KEY), first), "what was computed in between made a difference"


def test_a_run_that_is_resumed_drops_what_it_would_have_dropped() -> None:
    """Weights after three steps, with and without a new network in the middle of them."""

    def steps(network: DartsNetwork, numbers: range) -> None:
        for step in numbers:
            network.drop_path = 0.1 * step
            network.zero_grad()
            result = network(random_images(8), (7, "train", 0, step))
            (result.logits.square().sum() + 0.4 * result.auxiliary.square().sum()).backward()
            with torch.no_grad():
                for weight in network.parameters():
                    assert weight.grad is not None
                    weight.sub_(weight.grad, alpha=0.01)

    straight, before, after = (build(DARTS_V2, auxiliary="two-norms") for _ in range(3))
    steps(straight, range(1, 4))
    steps(before, range(1, 3))
    torch.rand(5)
    after.load_state_dict(before.state_dict())
    steps(after, range(3, 4))
    for name, value in straight.state_dict().items():
        assert torch.equal(after.state_dict()[name], value), name


def test_the_global_generators_are_left_alone() -> None:
    before = torch.get_rng_state(), random.getstate()
    network = build(DARTS_V2, drop_path=0.3, auxiliary="one-norm")
    network(random_images(4), KEY).logits.sum().backward()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_paths_do_not_depend_on_the_kind_of_numbers() -> None:
    images = random_images(16)
    single_precision = multipliers(build(), images, KEY)
    double_precision = multipliers(build().double(), images.double(), KEY)
    torch.testing.assert_close(single_precision, double_precision.float())
    in_double = double_precision[0, 0]
    torch.testing.assert_close(in_double[in_double > 0.5], torch.full_like(in_double[in_double > 0.5], 4 / 3))
    assert build().double()(images.double(), KEY).dtype == torch.float64


def test_the_probability_is_set_from_outside() -> None:
    network = build(drop_path=0.2)
    assert network.drop_path == 0.2
    assert "drop_path" not in " ".join(network.state_dict())
    network.drop_path = 0.75
    dropped = multipliers(network, random_images(256), KEY) == 0
    assert abs(dropped[0, 0].float().mean().item() - 0.75) < 0.15


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.0, ValueError, "0 <= drop_path < 1 must hold, but got drop_path=1.0"),
        (-0.1, ValueError, "0 <= drop_path < 1 must hold, but got drop_path=-0.1"),
        (float("nan"), ValueError, "0 <= drop_path < 1 must hold, but got drop_path=nan"),
        ("0.2", TypeError, "drop_path must be a number, but got str"),
    ],
)
def test_what_is_no_probability_is_refused(value: float, error: type[Exception], message: str) -> None:
    network = build(drop_path=0.2)
    with pytest.raises(error, match=message):
        network.drop_path = value
    assert network.drop_path == 0.2
    with pytest.raises(error, match=message):
        build(drop_path=value)


def test_a_pass_that_would_draw_must_say_for_what() -> None:
    network = build(drop_path=0.2)
    with pytest.raises(ValueError, match=r"must be given a key, such as \(seed, epoch, step\), but got none with drop"):
        network(random_images(2))
    for wrong in (3, "train", [0, 1]):
        with pytest.raises(TypeError, match=f"must be a tuple, such as .*, but got {type(wrong).__name__}"):
            network(random_images(2), wrong)


def test_networks_of_the_benchmark_have_none() -> None:
    network = NasBench201Network(Cell(("skip_connect",) * 6), NasBench201Design(channels=2, cells_per_stage=1))
    network.drop_path = 0.0
    with pytest.raises(ValueError, match=r"drop_path must be 0 in networks of nas-bench-201, but got drop_path=0\.2"):
        network.drop_path = 0.2
    assert network.drop_path == 0.0
    assert torch.equal(network.eval()(torch.ones(1, 3, 8, 8), KEY), network(torch.ones(1, 3, 8, 8)))
