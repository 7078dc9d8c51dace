"""NoisyDARTS: the distribution of its noise, and that probes replay it."""

from typing import get_args

import torch
from scipy import stats

from smallgroup.methods.noisy_darts import NoisyDarts
from smallgroup.runtime import Phase, stream
from tests.methods.cases import fits, started

Y = 3 * torch.randn(4, 5, 50, 100, generator=stream("outputs")).double() + 1


def test_the_noise_is_normal_with_a_share_of_the_deviation() -> None:
    method = started(NoisyDarts(mean=0.5))
    noise = method.transform("skip_connect", Y, stream(0), "w") - Y
    assert noise.numel() == 100_000
    scaled = (noise - 0.5) / (0.2 * Y.std())
    inner = torch.tensor(stats.norm.ppf([k / 10 for k in range(1, 10)]))
    assert fits(torch.bucketize(scaled.flatten(), inner).bincount(minlength=10), torch.full((10,), 0.1))


def test_evaluation_has_none() -> None:
    assert torch.equal(started(NoisyDarts()).transform("skip_connect", Y, stream(0), None), Y)
    for phase in get_args(Phase):
        assert not torch.equal(started(NoisyDarts()).transform("skip_connect", Y, stream(0), phase), Y), phase


def test_the_noise_has_no_gradient_and_probes_see_the_same() -> None:
    """At another output the noise of a pass stays what it was: the derivative of the sum is exactly one."""
    method = started(NoisyDarts())
    y = Y.clone().requires_grad_()
    first = method.transform("skip_connect", y, stream(7), "w")
    (gradient,) = torch.autograd.grad(first.sum(), y)
    assert torch.equal(gradient, torch.ones_like(Y))
    probe = method.transform("skip_connect", 2 * Y, stream(7), "w")
    torch.testing.assert_close(probe - 2 * Y, (first - y).detach())
    other = method.transform("skip_connect", 2 * Y, stream(8), "w") - 2 * Y
    torch.testing.assert_close(other.std(), 0.2 * 2 * Y.std(), rtol=0.02, atol=0)


def test_drop_path_is_a_switch_of_its_own() -> None:
    y = torch.ones(100_000, 1, 1, 1).double()
    found = started(NoisyDarts(scale=0.0, drop_path=0.3)).transform("skip_connect", y, stream(1), "v").flatten()
    assert set(found.tolist()) == {0.0, 1 / 0.7}
    assert fits(torch.stack([(found == 0).sum(), (found > 0).sum()]), torch.tensor([0.3, 0.7]))
    assert torch.equal(y, torch.ones_like(y))
