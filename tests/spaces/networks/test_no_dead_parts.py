"""Derived networks have no operation that cannot influence a logit, whatever method or rule derived them."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from smallgroup import kernels
from smallgroup.methods import METHODS, Relaxed
from smallgroup.runtime import stream
from smallgroup.spaces.layers import Zero
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.spaces.space import Space
from smallgroup.spaces.weights import initialize
from smallgroup.testing.method_contract import SMALL
from smallgroup.testing.small import small_network

BENCHMARK = replace(cast(NasBench201Space, SMALL["nas-bench-201"]), derivation="benchmark")
OPTIONS: dict[str, dict[str, int]] = {"pc-darts": {"part": 2}}
RULES = ("darts", "darts-minus", "fair-darts", "gdas", "p-darts", "pc-darts", "snas")
"""Methods that differ in how they derive."""
CASES = [
    (method, space)
    for method in RULES
    for space in (*SMALL.values(), BENCHMARK)
    if method != "p-darts" or space.name == "darts"
]


def operations_of(network: nn.Module) -> list[nn.Module]:
    """The operations of all cells but `none`."""
    lists = [module for name, module in network.named_modules() if name.rpartition(".")[2] == "operations"]
    return [each for one in lists for each in cast(nn.ModuleList, one) if not isinstance(each, Zero)]


@pytest.mark.parametrize(("method", "space"), CASES, ids=lambda value: getattr(value, "name", value))
def test_every_operation_of_a_derived_network_moves_the_logits(method: str, space: Space) -> None:
    """Each operation's output is disturbed in turn, in networks of architectures in which `none` leads."""
    generator = stream("dead", method)
    images = torch.randn(4, *space.images.shape, generator=generator)
    for lead in (0.0, 1.0):
        relaxed = Relaxed(space, METHODS[method](**OPTIONS.get(method, {})))
        architecture = relaxed.initial_architecture()
        for kind, spec in space.kinds.items():
            alpha = architecture[f"alpha_{kind}"]
            alpha += 3 * torch.randn(alpha.shape, generator=generator)
            alpha[:, spec.operations.index("none")] += 3 * lead
        network = initialize(small_network(relaxed.derive(architecture)), generator).eval()
        found = operations_of(network)
        assert found
        with kernels.using("plain"), torch.no_grad():
            logits = network(images)
            for operation in found:

                def disturb(_: nn.Module, __: object, output: Tensor) -> Tensor:
                    return output + torch.randn(output.shape, generator=stream("disturbed"))

                handle = operation.register_forward_hook(disturb)
                moved = network(images)
                handle.remove()
                assert not torch.equal(moved, logits), f"{operation} is dead"
