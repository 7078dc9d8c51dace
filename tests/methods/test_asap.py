"""ASAP: its temperature, its pruning and its end."""

import math

import pytest
import torch

from smallgroup.methods import Continue, EpochEnd, Stop
from smallgroup.methods.asap import Asap
from smallgroup.testing.small import small_space
from tests.methods.cases import ALPHA, at, started


def test_it_cools_by_five_per_cent_an_epoch_and_shorter_searches_as_far() -> None:
    method = started(Asap())
    for epoch, epochs, t in ((0, 50, 0), (9, 50, 9), (10, 50, 10), (49, 50, 49), (3, 6, 25)):
        method.schedule(at(epoch, epochs))
        assert method.temperature == pytest.approx(1.6 * 0.95**t)
        assert method.trains_architecture(at(epoch, epochs)) == (t >= 10)


def test_weights_are_the_tempered_softmax() -> None:
    method = started(Asap())
    method.schedule(at(20, 50))
    found = method.mix({"alpha_cell": ALPHA}, {}, "w")["cell"].weights
    expected = (ALPHA[:, 1:] / (1.6 * 0.95**20)).exp()
    torch.testing.assert_close(found[:, 1:], expected / expected.sum(dim=1, keepdim=True))
    assert not bool(found[:, 0].any())


def test_what_is_below_the_threshold_is_pruned_and_one_operation_per_edge_is_the_end() -> None:
    """0.4 / 5 = 0.08 of a share; the softmax at T = 1."""
    method = started(Asap(first_temperature=1.0))
    shares = torch.tensor([[0.2, 0.07, 0.5, 0.34, 0.09], [0.2, 0.9, 0.04, 0.03, 0.03], [0.2, 0.25, 0.25, 0.25, 0.25]])
    alpha = shares.double().log()  # `none` is not among them, so that the others of a row sum to 1

    def end(epoch: int, alpha: torch.Tensor, frozen: int = 0) -> object:
        return method.end_epoch(EpochEnd(at(epoch, 50, frozen=frozen), {"alpha_cell": alpha}, None))

    assert end(3, alpha, frozen=4) == Continue()
    assert bool(method.mask("cell")[:, 1:].all())
    assert end(4, alpha) == Continue()
    assert method.mask("cell").long().tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 0, 0], [0, 1, 1, 1, 1]]
    sharp = torch.tensor([[0, 0, 5.0, 0, 0], [0, 0, 9.0, 0, 0], [0, 0, 0, 0, 6.0]]).double()
    assert end(5, sharp) == Stop("one operation per edge is left")
    assert method.mask("cell").long().tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_the_threshold_is_a_part_of_what_an_edge_is_offered() -> None:
    """Two operations on every edge of robust-s1, although its normal cells have six columns: 0.4 / 2."""
    space = small_space("robust-s1")
    method = Asap(first_temperature=1.0)
    method.start(space)
    architecture = {f"alpha_{name}": torch.zeros(kind.shape) for name, kind in space.kinds.items()}
    for name, share in (("normal", 0.19), ("reduce", 0.21)):
        alpha, weaker = architecture[f"alpha_{name}"], method.mask(name).long().argmax(dim=1)
        alpha[torch.arange(14), weaker] = math.log(share / (1 - share))
    assert method.end_epoch(EpochEnd(at(5, 50), architecture, None)) == Continue()
    left = {name: method.mask(name).sum(dim=1).tolist() for name in space.kinds}
    assert left == {"normal": [1] * 14, "reduce": [2] * 14}


def test_nothing_is_pruned_while_it_is_hot() -> None:
    method = started(Asap())
    method.schedule(at(5, 50))
    method.end_epoch(EpochEnd(at(5, 50), {"alpha_cell": 9 * ALPHA}, None))
    assert bool(method.mask("cell")[:, 1:].all())
