"""The built-in methods keep to the contract."""

import torch

from smallgroup.methods import METHODS, Darts, DartsMinus, FairDarts, Gdas, Method, PcDarts, PDarts
from smallgroup.methods.asap import Asap
from smallgroup.methods.bayes_nas import BayesNas
from smallgroup.methods.beta_darts import BetaDarts
from smallgroup.methods.darts_plus import DartsPlus
from smallgroup.methods.darts_pt import DartsPt
from smallgroup.methods.dr_nas import DrNas
from smallgroup.methods.drop_nas import DropNas
from smallgroup.methods.dsnas import Dsnas
from smallgroup.methods.merge_nas import MergeNas
from smallgroup.methods.noisy_darts import NoisyDarts
from smallgroup.methods.oles import Oles
from smallgroup.methods.parsec import Parsec
from smallgroup.methods.proxyless import Proxyless
from smallgroup.methods.r_darts import RDarts
from smallgroup.methods.sdarts_adv import SdartsAdv
from smallgroup.methods.sdarts_rs import SdartsRs
from smallgroup.methods.snas import Snas
from smallgroup.spaces import Space
from smallgroup.spaces.edges import weights_of_operations
from smallgroup.testing import MethodContract

CHEAPEST = ("nas-bench-201",)
"""Methods that build no edges of their own differ from DARTS in nothing that depends on the space."""


class TestDarts(MethodContract):
    def method(self) -> Method:
        return Darts()


class TestGdas(MethodContract):
    def method(self) -> Method:
        return Gdas()


class TestFairDarts(MethodContract):
    def method(self) -> Method:
        return FairDarts()


class TestDartsMinus(MethodContract):
    def method(self) -> Method:
        return DartsMinus()


class TestPcDarts(MethodContract):
    def method(self) -> Method:
        return PcDarts(part=2)


class TestPDarts(MethodContract):
    spaces = ("darts",)

    def method(self) -> Method:
        return PDarts(dropout=(0.3, 0.4, 0.7))


class TestSnas(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return Snas()


class TestDrNas(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return DrNas(divergence=1e-3)


class TestSdartsRs(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return SdartsRs(first_epsilon=0.2)


class TestSdartsAdv(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return SdartsAdv(first_epsilon=0.2, ascents=2)


class TestBetaDarts(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return BetaDarts()


class TestDartsPlus(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return DartsPlus(criterion="ranking", patience=3)


class TestNoisyDarts(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return NoisyDarts(drop_path=0.2)


class TestDropNas(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return DropNas(rate=0.1)


class TestAsap(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return Asap()


class TestParsec(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return Parsec(children=2)


class TestDsnas(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return Dsnas()


class TestProxyless(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return Proxyless(gates="two")


class TestMergeNas(MethodContract):
    spaces = ("darts", "nas-bench-201")

    def method(self) -> Method:
        return MergeNas()


class TestBayesNas(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return BayesNas()


class TestRDarts(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return RDarts(drop_path=0.4)


class HalfStopped(Oles):
    """Every other operation is stopped from the start: gradients of the modes agree about weights that stay."""

    def start(self, space: Space) -> None:
        super().start(space)
        with torch.device("meta"):
            operations = weights_of_operations(space.supernet(self.build_edge, {}))
        self.state["frozen"] = torch.arange(len(operations)) % 2 == 0


class TestOles(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return HalfStopped()


class TestDartsPt(MethodContract):
    spaces = CHEAPEST

    def method(self) -> Method:
        return DartsPt()


def test_every_built_in_method_is_tested_here() -> None:
    tested = {METHODS[case().method().name] for case in MethodContract.__subclasses__() if case.__module__ == __name__}
    assert tested == set(METHODS.values())
