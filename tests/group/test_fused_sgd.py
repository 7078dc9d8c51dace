"""The fused SGD is torch's plain one, whatever gradients it is given."""

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from smallgroup.group import step_derivative
from smallgroup.group.fused_sgd import FusedSGD

SETTINGS = {
    "plain": (0.0, 0.0, False),
    "decay": (0.0, 0.1, False),
    "momentum": (0.9, 0.0, False),
    "both": (0.9, 0.1, False),
    "nesterov": (0.9, 0.1, True),
}


def weights(dtype: torch.dtype) -> list[Tensor]:
    """Filters in both layouts, a depthwise one, sizes off the vector width, a single number and none at all."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3, 3, 3), (4, 3, 3, 3), (16, 1, 5, 5), (10,), (3, 7), (), (0,)]
    result = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    result[0] = result[0].contiguous(memory_format=torch.channels_last)
    return result


def gradient(weight: Tensor, generator: torch.Generator, layout: str) -> Tensor:
    value = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)
    return value.contiguous(memory_format=torch.channels_last) if layout == "last" and value.dim() == 4 else value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_it_equals_the_plain_one(setting: str, layout: str, dtype: torch.dtype) -> None:
    """Weights take part now and then: some for the first time in a later step, some never."""
    momentum, decay, nesterov = SETTINGS[setting]
    plain, fused = weights(dtype), weights(dtype)
    optimizers = [
        SGD(plain, lr=0.1, momentum=momentum, weight_decay=decay, nesterov=nesterov, foreach=False),
        FusedSGD(fused, lr=0.1, momentum=momentum, weight_decay=decay, nesterov=nesterov),
    ]
    generator = torch.Generator().manual_seed(1)
    for step in range(5):
        for i, (left, right) in enumerate(zip(plain, fused, strict=True)):
            g = gradient(left, generator, layout)
            left.grad = right.grad = None if i == 4 or (step + i) % 3 == 0 else g
        before = [weight.grad.clone() for weight in fused if weight.grad is not None]
        for optimizer in optimizers:
            optimizer.step()
        given = [weight.grad for weight in fused if weight.grad is not None]
        assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))
    for left, right, start in zip(plain, fused, weights(dtype), strict=True):
        torch.testing.assert_close(right, left, rtol=1e-6, atol=1e-7)
        assert right.stride() == start.stride()
    assert torch.equal(fused[4], weights(dtype)[4])


def test_without_gradients_nothing_moves() -> None:
    fused = weights(torch.float32)
    FusedSGD(fused, lr=0.1, momentum=0.9).step()
    assert all(torch.equal(a, b) for a, b in zip(fused, weights(torch.float32), strict=True))


def test_a_buffer_of_another_layout_is_brought_to_that_of_its_weight() -> None:
    """As one may be that was loaded from a file."""
    results = []
    for layout in (torch.channels_last, torch.contiguous_format):
        weight = weights(torch.float32)[0]
        fused = FusedSGD([weight], lr=0.1, momentum=0.9)
        buffer = torch.arange(108.0).view(4, 3, 3, 3).contiguous(memory_format=layout)
        fused.state[weight]["momentum_buffer"] = buffer
        weight.grad = torch.ones_like(weight)
        fused.step()
        results.append(weight)
    assert torch.equal(*results)


def test_weights_with_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="weights without gaps, but one of 4 numbers reaches over 7"):
        FusedSGD([torch.zeros(8)[::2]], lr=0.1)


def test_its_derivative_is_that_of_sgd() -> None:
    weight = torch.ones(3)
    fused = FusedSGD([weight], lr=0.1, momentum=0.9)
    assert step_derivative(fused, fused.param_groups[0], weight, weight) == 0.1
    nesterov = FusedSGD([weight], lr=0.1, momentum=0.9, nesterov=True)
    assert step_derivative(nesterov, nesterov.param_groups[0], weight, weight) == pytest.approx(0.19)


def test_a_scaler_leaves_out_a_step_that_overflowed() -> None:
    """And undoes its scale itself: the kernel is never told of it."""
    weight = torch.ones(3)
    fused = FusedSGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.zeros(()))  # which makes the scale
    for gradient, after in ((8.0, 0.0), (float("inf"), 0.0), (2.0, -0.5)):
        weight.grad = torch.full((3,), gradient)
        scaler.step(fused)
        scaler.update()
        assert weight.tolist() == [after] * 3
