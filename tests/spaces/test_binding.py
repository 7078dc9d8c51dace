"""Other tensors in the places of a module's parameters: for one call, whatever happens in it."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from smallgroup.spaces.binding import Bound


def test_a_call_is_that_of_torch_and_leaves_the_module_alone() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    before = dict(module.named_parameters())
    given = {name: torch.randn_like(tensor).requires_grad_() for name, tensor in before.items()}
    x = torch.randn(5, 3)
    bound = Bound(module)
    found = bound(given, x)
    assert torch.equal(found, functional_call(module, given, (x,)))
    assert all(g is not None for g in torch.autograd.grad(found.sum(), list(given.values())))
    assert torch.equal(
        bound({"0.bias": given["0.bias"]}, x), functional_call(module, {"0.bias": given["0.bias"]}, (x,))
    )
    assert all(tensor is before[name] for name, tensor in module.named_parameters())


def test_what_fails_leaves_the_module_alone() -> None:
    module = nn.Linear(3, 4)
    before, bound = dict(module.named_parameters()), Bound(module)
    with pytest.raises(ValueError, match="must be named like parameters of the module, but it has no 'other'"):
        bound({"weight": torch.zeros(4, 3), "other": torch.zeros(1)}, torch.zeros(1, 3))
    with pytest.raises(RuntimeError):
        bound({"weight": torch.zeros(2, 2)}, torch.zeros(1, 3))
    assert all(tensor is before[name] for name, tensor in module.named_parameters())
