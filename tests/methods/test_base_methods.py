"""DARTS-, PC-DARTS and P-DARTS against closed forms and published counts."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smallgroup.methods import Darts, DartsMinus, EpochEnd, Method, PcDarts, PDarts, Progress, Rebuild, Relaxed
from smallgroup.methods.darts_minus import AuxiliaryEdge
from smallgroup.methods.p_darts import strongest
from smallgroup.methods.pc_darts import PartialEdge, shuffled
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import OPERATIONS, DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Choice, EdgeParts
from tests.methods.cases import DRAWS, fits

SKIP, SEP, NONE = (OPERATIONS.index(name) for name in ("skip_connect", "sep_conv_3x3", "none"))
SMALL = DartsSpace(channels=4, cells=3, stem="small", images=ImageSpec(10, 3, 8))


def parts(channels: int = 4, stride: int = 1) -> EdgeParts:
    """An edge of two operations: x, and 3x."""

    class Times(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: Tensor) -> Tensor:
            return self.factor * x[..., ::stride, ::stride]

    return EdgeParts(("one", "three"), channels, stride, lambda name, *_: Times({"one": 1.0, "three": 3.0}[name]))


def choice(weights: Tensor, settings: Tensor | None = None) -> Choice:
    return Choice(weights, (True, True), (True, True), "all", None, settings)


def at(epoch: int, epochs: int, stage: int = 0, frozen: int = 0) -> Progress:
    return Progress(epoch=epoch, epochs=epochs, step=epoch, steps=epochs, stage=stage, frozen=frozen)


# Counts of the literature.


@pytest.mark.parametrize(
    ("method", "space", "expected"),
    [
        (Darts(), DartsSpace(), 1_930_618),
        (DartsMinus(), DartsSpace(), 1_971_578),
        (PDarts(), DartsSpace(cells=5), 1_275_834),
        (PDarts(), DartsSpace(cells=5, images=ImageSpec(100, 3, 32)), 1_298_964),
        (PcDarts(), DartsSpace(), 299_578),
        (PcDarts(), DartsSpace(images=ImageSpec(100, 3, 32)), 322_708),
        (PcDarts(part=2), DartsSpace(stem="imagenet", images=ImageSpec(1000, 3, 224)), 956_512),
    ],
)
def test_supernets_have_the_published_size(method: Method, space: DartsSpace, expected: int) -> None:
    assert sum(p.numel() for p in Relaxed(space, method).supernet.parameters()) == expected


# DARTS-.


def test_the_auxiliary_skip_stands_beside_the_softmax() -> None:
    x, weights = torch.randn(2, 4, 5, 5, generator=stream(0)), torch.tensor([0.25, 0.75])
    edge = AuxiliaryEdge(parts())
    torch.testing.assert_close(edge(x, choice(weights, torch.tensor(0.3))), (0.25 + 3 * 0.75 + 0.3) * x)
    torch.testing.assert_close(edge(x, choice(weights)), (0.25 + 3 * 0.75) * x)


def test_every_edge_of_darts_minus_gets_beta_and_it_is_not_learned() -> None:
    method = DartsMinus()
    method.start(SMALL)
    method.schedule(at(3, 10))
    architecture = {name: t.requires_grad_() for name, t in method.initial(SMALL, stream(0)).items()}
    for mixture in method.mix(architecture, {}, "w").values():
        assert mixture.settings is not None
        torch.testing.assert_close(mixture.settings, torch.full((14,), 0.7))
        assert not mixture.settings.requires_grad
        torch.testing.assert_close(mixture.weights.sum(dim=1), torch.ones(14))


@pytest.mark.parametrize(
    ("decay", "epoch", "beta"),
    [
        ("linear", 0, 1.0),
        ("linear", 25, 0.5),
        ("linear", 49, 0.02),
        ("cosine", 0, 1.0),
        ("cosine", 25, 0.5),
        ("cosine", 49, (1 + math.cos(0.98 * math.pi)) / 2),
    ],
)
def test_beta_falls_over_the_epochs(decay: Any, epoch: int, beta: float) -> None:
    method = DartsMinus(decay)
    method.schedule(at(epoch, 50))
    assert float(method.state["beta"]) == pytest.approx(beta, abs=1e-12)


def test_the_derived_cell_has_no_auxiliary_skip() -> None:
    """What a genotype computes in the supernet does not depend on beta, nor on the weights of auxiliary connections."""
    relaxed = Relaxed(SMALL, DartsMinus())
    architecture, w = relaxed.initial_architecture(), relaxed.initial_weights("w")
    genotype = relaxed.derive(architecture)
    x = torch.randn(3, 3, 8, 8, generator=stream(1))
    before = relaxed.derived_logits(w, genotype, x)
    relaxed.method.schedule(at(9, 10))
    changed = {name: t + 1 if "auxiliary" in name else t for name, t in w.items()}
    assert any("auxiliary" in name for name in w)
    assert torch.equal(before, relaxed.derived_logits(changed, genotype, x))
    assert not torch.equal(relaxed(w, architecture, x), relaxed(changed, architecture, x))


# PC-DARTS.


def test_channels_are_shuffled_between_the_groups() -> None:
    """Eight channels in four groups of two: place 4 i + g takes channel 2 g + i."""
    x = torch.arange(8.0).view(1, 8, 1, 1)
    assert shuffled(x, 4).flatten().tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_quarter_of_the_channels_goes_through_the_operations(layout: torch.memory_format) -> None:
    x = torch.randn(2, 8, 5, 5, generator=stream(0)).contiguous(memory_format=layout)
    weights = torch.tensor([0.25, 0.75])
    made = PartialEdge(parts(channels=8), 4)(x, choice(weights))
    mixed = torch.cat([(0.25 + 3 * 0.75) * x[:, :2], x[:, 2:]], dim=1)
    torch.testing.assert_close(made, mixed[:, [0, 2, 4, 6, 1, 3, 5, 7]])


@pytest.mark.parametrize("size", [6, 7])
def test_what_is_passed_by_is_pooled_where_the_size_is_halved(size: int) -> None:
    x = torch.randn(2, 4, size, size, generator=stream(0))
    made = PartialEdge(parts(channels=4, stride=2), 2)(x, choice(torch.tensor([1.0, 0.0])))
    half = (size + 1) // 2
    assert made.shape == (2, 4, half, half)
    for row in range(half):
        for column in range(half):
            patch = x[:, 2:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            torch.testing.assert_close(made[:, [1, 3], row, column], patch.amax(dim=(2, 3)))
    torch.testing.assert_close(made[:, [0, 2]], x[:, :2, ::2, ::2])


def test_channels_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4 must divide their number, but it is 6; see methods\.pc-darts\.part"):
        Relaxed(NasBench201Space(channels=6), PcDarts())


@pytest.mark.parametrize("space", [SMALL, NasBench201Space(channels=4, cells_per_stage=1)])
def test_the_weights_of_the_edges_of_a_node_sum_to_one(space: Any) -> None:
    method = PcDarts(part=2)
    method.start(space)
    architecture = {
        n: 3 * torch.randn(t.shape, generator=stream(n)) for n, t in method.initial(space, stream(0)).items()
    }
    for name, kind in space.kinds.items():
        weights, beta = method.mix(architecture, {}, "w")[name].edges, architecture[f"beta_{name}"]
        assert weights is not None
        for node in {node for _, node in kind.edges}:
            into = [e for e, (_, end) in enumerate(kind.edges) if end == node]
            torch.testing.assert_close(weights[into], beta[into].exp() / beta[into].exp().sum())


def test_edges_begin_with_small_normal_numbers_too() -> None:
    found = PcDarts().initial(DartsSpace(), stream(0))
    betas = torch.cat([found["beta_normal"], found["beta_reduce"]])
    assert len(betas) == 28
    assert 5e-4 < float(betas.std()) < 2e-3
    assert abs(float(betas.mean())) < 1e-3


@pytest.mark.parametrize("stride", [1, 2])
def test_all_channels_may_go_through_the_operations(stride: int) -> None:
    x, weights = torch.randn(2, 4, 6, 6, generator=stream(0)), torch.tensor([0.25, 0.75])
    made = PartialEdge(parts(channels=4, stride=stride), 1)(x, choice(weights))
    torch.testing.assert_close(made, (0.25 + 3 * 0.75) * x[..., ::stride, ::stride])


def test_a_node_is_the_sum_of_its_edges_by_their_weights() -> None:
    """An edge with next to no weight has no influence: its operations get no gradient to speak of."""
    relaxed = Relaxed(SMALL, PcDarts(part=2))
    architecture = relaxed.initial_architecture()
    architecture["beta_normal"][0] = -40.0
    w = {name: t.requires_grad_() for name, t in relaxed.initial_weights("w").items()}
    logits = relaxed(w, architecture, torch.randn(3, 3, 8, 8, generator=stream(1)))
    found = torch.autograd.grad(logits.square().sum(), list(w.values()), allow_unused=True)
    sizes = {name: 0.0 if g is None else float(g.norm()) for name, g in zip(w, found, strict=True)}
    first = [size for name, size in sizes.items() if name.startswith("cells.0.nodes.edges.0.")]
    second = [size for name, size in sizes.items() if name.startswith("cells.0.nodes.edges.1.")]
    assert max(first) < 1e-10
    assert max(second) > 1e-6


def test_pc_darts_derives_by_alpha_times_beta() -> None:
    """Of the three edges of node 3 the one with the strongest operation goes, because its beta is the lowest."""
    method = PcDarts()
    method.start(DartsSpace())
    architecture = {
        name: torch.zeros(14, 8) if name.startswith("alpha") else torch.zeros(14)
        for name in method.initial(DartsSpace(), stream(0))
    }
    alpha, beta = architecture["alpha_normal"], architecture["beta_normal"]
    alpha[:, SEP] = 1.0
    alpha[2, SEP] = 2.0
    without = method.derive(DartsSpace(), architecture)
    assert [edge.source for edge in without.normal.nodes[1]] == [0, 1]
    beta[2:5] = torch.tensor([-2.0, 1.0, 1.0])
    assert [edge.source for edge in method.derive(DartsSpace(), architecture).normal.nodes[1]] == [1, 2]
    scores = method.scores(architecture)["normal"]
    shares = torch.tensor([-2.0, 1.0, 1.0]).softmax(dim=0)
    assert float(scores[2, SEP]) == pytest.approx(float(shares[0]) * math.exp(2) / (math.exp(2) + 7), rel=1e-5)


# P-DARTS.


def test_the_weakest_operations_go_and_of_equals_the_first() -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.25, 0.25, 0.25, 0.25], [-torch.inf, 0.1, 0.1, 0.8]])
    kept = strongest(scores, 2)
    assert kept.tolist() == [[False, True, False, True], [False, False, True, True], [False, False, True, True]]
    assert bool(strongest(scores, 4).all())


def test_a_stage_ends_with_fewer_operations_and_more_cells() -> None:
    method, space = PDarts(), DartsSpace(cells=5)
    method.start(space)
    alpha = torch.linspace(-1, 1, 8).repeat(14, 1)
    alpha[0] = alpha[0].flip(0)
    architecture = {"alpha_normal": alpha, "alpha_reduce": alpha.clone()}

    def end(epoch: int, stage: int) -> Any:
        return method.end_epoch(EpochEnd(at(epoch, 25, stage), architecture, None))

    assert not isinstance(end(23, 0), Rebuild)
    assert end(24, 0) == Rebuild({"cells": 11})
    assert [i for i, kept in enumerate(method.mask("normal")[1].tolist()) if kept] == [3, 4, 5, 6, 7]
    assert [i for i, kept in enumerate(method.mask("reduce")[0].tolist()) if kept] == [0, 1, 2, 3, 4]
    assert end(24, 1) == Rebuild({"cells": 17})
    assert [i for i, kept in enumerate(method.mask("normal")[1].tolist()) if kept] == [5, 6, 7]
    assert NONE in [i for i, kept in enumerate(method.mask("normal")[0].tolist()) if kept]
    assert not isinstance(end(24, 2), Rebuild)


@pytest.mark.parametrize(
    ("stage", "epoch", "expected"),
    [
        (0, 5, 0.0),
        (1, 0, 0.4 * 24 / 25),
        (1, 9, 0.4 * 15 / 25),
        (1, 10, 0.4),
        (2, 24, 0.7 * math.exp(-0.2 * 14)),
    ],
)  # the published schedule, for stages of 25 epochs
def test_dropout_falls_then_jumps_back_and_falls_again(stage: int, epoch: int, expected: float) -> None:
    method = PDarts()
    method.schedule(at(epoch, 25, stage, frozen=10))
    assert float(method.state["dropout"]) == pytest.approx(expected, abs=1e-12)


def test_dropout_takes_the_same_course_in_shorter_stages() -> None:
    method = PDarts()
    method.schedule(at(6, 10, 2, frozen=4))
    assert float(method.state["dropout"]) == pytest.approx(0.7 * math.exp(-5 * 2 / 10), abs=1e-12)


def test_skip_connections_are_dropped_out_where_they_change_nothing() -> None:
    """The share of zeros is the rate, what is left is scaled, and neither evaluation nor another operation has any."""
    method = PDarts(dropout=(0.4, 0.4, 0.7))
    method.start(SMALL)
    method.schedule(at(0, 1))
    rate, x = 0.4, torch.ones(DRAWS // 1000, 10, 10, 10)
    found = method.transform("skip_connect", x, stream(0), "w")
    zero = found == 0
    assert fits(torch.stack([zero.sum(), (~zero).sum()]), torch.tensor([rate, 1 - rate]))
    torch.testing.assert_close(found[~zero], torch.full_like(found[~zero], 1 / (1 - rate)))
    assert method.transform("skip_connect", x, stream(0), None) is x
    assert torch.equal(found, method.transform("skip_connect", x, stream(0), "w"))


def test_only_skips_of_stride_one_are_disturbed() -> None:
    seen: list[tuple[int, int, str]] = []

    class Watched(PDarts):
        def transform(self, operation: str, output: Tensor, *rest: Any) -> Tensor:
            seen.append((output.shape[1], output.shape[-1], operation))
            return super().transform(operation, output, *rest)

    relaxed = Relaxed(SMALL, Watched(dropout=(0.5, 0.4, 0.7)))
    relaxed.method.schedule(at(0, 1))
    architecture, w = relaxed.initial_architecture(), relaxed.initial_weights("w")
    x = torch.randn(3, 3, 8, 8, generator=stream(1))
    first = relaxed(w, architecture, x, phase="w")
    # A normal cell has 14 edges of stride 1, each of the two reductions 6: from node to node.
    assert len(seen) == 14 + 2 * 6
    assert {operation for _, _, operation in seen} == {"skip_connect"}
    relaxed.begin_step(1)
    assert not torch.equal(first, relaxed(w, architecture, x, phase="w"))
    assert torch.equal(relaxed(w, architecture, x), relaxed(w, architecture, x))


def skipping(strengths: dict[int, float]) -> tuple[PDarts, dict[str, Tensor]]:
    """A normal cell whose edges would be skip connections of these strengths, with `sep_conv_3x3` next to them."""
    method = PDarts()
    method.start(DartsSpace(cells=5))
    alpha = torch.zeros(14, 8)
    alpha[:, SEP] = 1.0
    for edge, strength in strengths.items():
        alpha[edge, SKIP] = strength
    return method, {"alpha_normal": alpha, "alpha_reduce": alpha.clone()}


def test_at_most_two_skip_connections_stay_in_the_normal_cell() -> None:
    """Edges 0 and 1 lead to node 2, edges 2 to 4 to node 3, edges 5 to 8 to node 4."""
    method, architecture = skipping({0: 5.0, 1: 4.0, 2: 3.0, 5: 6.0})
    plain = Darts()
    plain.start(DartsSpace())
    assert plain.derive(DartsSpace(), architecture).normal.skips == 4
    genotype = method.derive(DartsSpace(cells=5), architecture)
    assert genotype.normal.skips == 2
    # The strongest two stay, edges 5 and 0; edge 1 is still one of the two of node 2 and has its next operation.
    assert [(e.operation, e.source) for e in genotype.normal.nodes[0]] == [("skip_connect", 0), ("sep_conv_3x3", 1)]
    assert ("skip_connect", 0) in [(e.operation, e.source) for e in genotype.normal.nodes[2]]
    # The reduction cell is left alone.
    assert genotype.reduce.skips == 4


def test_of_skip_connections_of_equal_strength_the_first_goes() -> None:
    method, architecture = skipping({0: 4.0, 1: 4.0, 2: 4.0})
    genotype = method.derive(DartsSpace(cells=5), architecture)
    kept = [
        (node, e.source) for node, edges in enumerate(genotype.normal.nodes) for e in edges if "skip" in e.operation
    ]
    assert kept == [(0, 1), (1, 0)]


def test_an_edge_that_loses_its_skip_connection_may_lose_its_place() -> None:
    """Node 4 has four edges; without its skip connection edge 5 is weaker than two of the others."""
    method, architecture = skipping({0: 5.0, 1: 5.0, 5: 4.0})
    architecture["alpha_normal"][5, SEP] = 0.5
    genotype = method.derive(DartsSpace(cells=5), architecture)
    assert [e.source for e in genotype.normal.nodes[2]] == [1, 2]
    assert genotype.normal.skips == 2


def test_how_many_skip_connections_is_an_option() -> None:
    method, architecture = skipping({0: 5.0, 1: 4.0, 2: 3.0})
    none = PDarts(skips=0)
    none.start(DartsSpace(cells=5))
    assert none.derive(DartsSpace(cells=5), architecture).normal.skips == 0
    assert method.derive(DartsSpace(cells=5), architecture).normal.skips == 2


def test_p_darts_is_refused_in_nas_bench_201() -> None:
    with pytest.raises(ValueError, match=r"makes the network deeper .* nas-bench-201 has a network of given depth"):
        Relaxed(NasBench201Space(), PDarts())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"added": (6,)}, "1 in added, 2 in kept and 3 in dropout"),
        ({"dropout": (0.1, 0.2)}, "2 in added, 2 in kept and 2 in dropout"),
        ({"kept": (5, 2)}, r"at least 3 operations per edge and never more than before, but got \[5, 2\]"),
        ({"kept": (3, 5)}, r"never more than before, but got \[3, 5\]"),
        ({"added": (-1, 2)}, r"must be 0 to 100, but got \[-1, 2\] and 2"),
        ({"added": (1, 10**6)}, r"must be 0 to 100"),
        ({"dropout": (0.0, 1.0, 0.5)}, r"at least 0 and below 1, but got \[0.0, 1.0, 0.5\]"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PDarts(**options)


def test_the_optimizers_are_the_published_ones() -> None:
    assert (PcDarts.optimizer.lr, PcDarts.optimizer.clip, PcDarts.warmup) == (6e-4, None, 15 / 50)
    assert (PDarts.optimizer.lr, PDarts.optimizer.clip, PDarts.warmup) == (6e-4, 5.0, 10 / 25)
    assert (DartsMinus.optimizer, DartsMinus.warmup) == (Darts.optimizer, 0.0)
