"""The built-in methods keep to the contract."""

from smallgroup.methods import METHODS, Darts, DartsMinus, FairDarts, Gdas, Method, PcDarts, PDarts
from smallgroup.testing import MethodContract


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


def test_every_built_in_method_is_tested_here() -> None:
    tested = {type(case().method()) for case in MethodContract.__subclasses__() if case.__module__ == __name__}
    assert tested == set(METHODS.values())
