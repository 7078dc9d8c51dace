"""The twin device itself: it computes what the CPU computes, refuses what a GPU refuses, and counts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from smallgroup.group import Learner, SmallGroup
from smallgroup.runtime import stream
from smallgroup.testing import PlacementError, TwinDevice, twin_device


def test_values_and_gradients_are_those_of_the_cpu(twin: TwinDevice) -> None:
    x, w = torch.randn(2, 3, 5, 5, generator=stream(1)), torch.randn(4, 3, 3, 3, generator=stream(2))

    def gradient(device: torch.device | str) -> Tensor:
        weight = w.to(device).requires_grad_()
        y = functional.batch_norm(functional.conv2d(x.to(device), weight, padding=1), None, None, training=True)
        y.relu().mean().backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        assert weight.grad.device == torch.device(device)
        return weight.grad.cpu()

    assert torch.equal(gradient(twin.device), gradient("cpu"))


def test_data_is_replaced_with_its_layout(twin: TwinDevice) -> None:
    layer = torch.nn.Conv2d(2, 2, 3).to(twin.device)
    layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    weight: Any = layer.weight
    assert weight.stride() == weight.held.stride() == (18, 1, 6, 2)
    weight.data = torch.ones(1, device=twin.device)
    assert weight.tolist() == [1.0]
    assert weight.data.device == twin.device
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        weight.data = torch.ones(1)


def test_forward_mode_passes_through(twin: TwinDevice) -> None:
    x, d, a = (torch.randn(3, generator=stream(i)).to(twin.device) for i in range(3))
    with forward_ad.dual_level():
        leaf = a.requires_grad_()
        (found,) = torch.autograd.grad((forward_ad.make_dual(x, d) * leaf).sin().sum(), [leaf])  # type: ignore[no-untyped-call]
        tangent = forward_ad.unpack_dual(found).tangent  # type: ignore[no-untyped-call]
    expected = (x * a).cos() * d - x * (x * a).sin() * d * a
    assert torch.allclose(tangent.cpu(), expected.detach().cpu(), atol=1e-6)


@pytest.mark.parametrize(
    "misplaced",
    [
        lambda x: x + torch.zeros(3),
        lambda x: torch.stack([x.sum(), torch.zeros(())]),
        lambda x: torch.index_select(x, 0, torch.tensor([0])),
        lambda x: torch.cat([x, torch.zeros(3)]),
        lambda x: functional.nll_loss(x[None], torch.tensor([1])),
    ],
    ids=["add", "stack", "index_select", "cat", "nll_loss"],
)
def test_tensors_of_the_host_are_refused(twin: TwinDevice, misplaced: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(PlacementError, match="on the same device, but found lazy:0 and cpu"):
        misplaced(torch.ones(3, device=twin.device))


def test_single_numbers_of_the_host_are_taken_where_a_gpu_takes_them(twin: TwinDevice) -> None:
    x = torch.ones(3, device=twin.device)
    with twin.counted() as traffic:
        y = x * torch.tensor(2.0) + x.masked_fill(x > 0, torch.tensor(1.0))
    assert (traffic.reads.total(), traffic.copies.total()) == (0, 0)
    assert y.tolist() == [3.0, 3.0, 3.0]


def test_generators_of_the_host_are_refused(twin: TwinDevice) -> None:
    with pytest.raises(PlacementError, match="device type for generator but found 'cpu'"):
        torch.rand(3, device=twin.device, generator=stream(1))
    with pytest.raises(PlacementError, match="device type for generator but found 'cpu'"):
        torch.empty(3, device=twin.device).exponential_(generator=stream(1))
    assert torch.rand(3, generator=stream(1)).to(twin.device).device == twin.device


def test_numpy_needs_a_copy(twin: TwinDevice) -> None:
    x = torch.ones(2, device=twin.device)
    with pytest.raises(TypeError, match="can't convert lazy:0"):
        x.numpy()
    assert x.cpu().numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("asked", "reads", "posted", "copies"),
    [
        (lambda x: x.sum().item(), 1, 0, 0),
        (lambda x: float(x[0]), 1, 0, 0),
        (lambda x: bool((x > 0).all()), 1, 0, 0),
        (lambda x: x.tolist(), 1, 0, 0),
        (lambda x: x.cpu(), 1, 0, 0),
        (lambda x: torch.zeros(3).copy_(x), 1, 0, 0),
        (lambda x: x.nonzero(), 1, 0, 0),
        (lambda x: x[x > 0], 1, 0, 0),
        (lambda x: torch.equal(x, x), 1, 0, 0),
        (lambda x: x.to("cpu", non_blocking=True), 0, 1, 0),
        (lambda x: torch.zeros(3).copy_(x, non_blocking=True), 0, 1, 0),
        (lambda x: torch.zeros(3).to(x.device), 0, 0, 1),
        (lambda x: torch.tensor([1.0, 2.0], device=x.device), 0, 0, 1),
        (lambda x: x.copy_(torch.zeros(3)), 0, 0, 1),
        (lambda x: x[torch.tensor([0, 1])], 0, 0, 1),
        (lambda x: x[[0, 1]], 0, 0, 1),
        (lambda x: (x * 2 + x.relu())[:2].view(2, 1), 0, 0, 0),
        (torch.zeros_like, 0, 0, 0),
    ],
)
def test_reads_and_copies_are_counted(
    twin: TwinDevice, asked: Callable[[Tensor], object], reads: int, posted: int, copies: int
) -> None:
    x = torch.ones(3, device=twin.device)
    with twin.counted() as traffic:
        asked(x)
    assert (traffic.reads.total(), traffic.posted.total(), traffic.copies.total()) == (reads, posted, copies), traffic
    assert all("test_twin_device.py:" in place for place in traffic.reads + traffic.copies)


def test_launches_are_counted_but_for_views(twin: TwinDevice) -> None:
    x = torch.ones(2, 3, device=twin.device)
    with twin.counted() as traffic:
        (x.t().reshape(3, 2)[:1] * 2).sum()
    assert dict(traffic.launches) == {"mul": 1, "sum": 1}


def test_what_a_graph_cannot_contain_is_refused(twin: TwinDevice) -> None:
    x = torch.ones(3, device=twin.device)
    with twin.captured():
        y = x * 2
        with pytest.raises(PlacementError, match="a CUDA graph cannot contain tolist"):
            y.tolist()
        with pytest.raises(PlacementError, match="a CUDA graph cannot contain to"):
            torch.zeros(3).to(twin.device)
    assert y.tolist() == [2.0, 2.0, 2.0]


def _step(apply: Callable[..., Tensor], twin: TwinDevice) -> None:
    a, v, w = ({"x": torch.randn(2, 2, generator=stream(i)).to(twin.device)} for i in range(3))
    x, y = torch.randn(4, 2, generator=stream(4)).to(twin.device), torch.tensor([0, 1, 0, 1]).to(twin.device)
    SmallGroup([Learner(apply, a, v, w)], lam=0.0).step((x, y), x, (x, y))


def test_a_planted_tensor_of_the_cpu_in_a_learner_is_caught(twin: TwinDevice) -> None:
    _step(lambda w, a, x: (x @ w["x"]).tanh() @ a["x"], twin)
    with pytest.raises(PlacementError, match=r"found lazy:0 and cpu in .* at testing/test_twin_device.py"):
        _step(lambda w, a, x: (x @ w["x"]).tanh() @ a["x"] + torch.zeros(2), twin)


def test_a_planted_generator_of_the_cpu_in_a_learner_is_caught(twin: TwinDevice) -> None:
    def noisy(w: dict[str, Tensor], a: dict[str, Tensor], x: Tensor) -> Tensor:
        y = (x @ w["x"]).tanh() @ a["x"]
        return y + torch.randn(y.shape, device=y.device, generator=stream(1))

    with pytest.raises(PlacementError, match="generator"):
        _step(noisy, twin)


def test_a_planted_read_in_a_learner_is_found_at_its_line(twin: TwinDevice) -> None:
    def reading(w: dict[str, Tensor], a: dict[str, Tensor], x: Tensor) -> Tensor:
        return (x @ w["x"]).tanh() @ a["x"] * (1.0 if w["x"].sum().item() > -100 else 2.0)

    with twin.counted() as traffic:
        _step(reading, twin)
    places = [place for place in traffic.reads if place.startswith("_local_scalar_dense at testing/test_twin_device")]
    assert len(places) == 1
    assert traffic.reads[places[0]] >= 3  # passes of V, of W and on the validation batch


def test_the_rules_end_with_the_block() -> None:
    problem = twin_device.missing_from_torch()
    if problem is not None:
        pytest.skip(problem)
    with TwinDevice() as twin:
        x = torch.ones(2, device=twin.device)
    with TwinDevice() as twin, twin.counted() as traffic:
        assert (x + 1).tolist() == [2.0, 2.0]
    assert traffic.reads.total() == 1
    assert torch.tensor([1.0]).device.type == "cpu"


def test_a_torch_without_the_private_parts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_device, "_PRIVATE", ((torch._C, "_no_such_part"),))
    with pytest.raises(RuntimeError, match=r"needs private parts of torch, but torch .* has no torch._C._no_such_part"):
        TwinDevice()
