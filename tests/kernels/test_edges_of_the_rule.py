"""Where a fast path must refuse, step aside or look twice: each of these was once wrong without a word."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup import kernels
from smallgroup.kernels import Term
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.darts import OPERATIONS, DartsSpace, operations
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.edges import MixedEdge, MixedNodes
from smallgroup.spaces.kinds import Kind
from smallgroup.spaces.layers import FULL, SEARCH, Convolutions, relu_conv_norm
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.space import Choice, EdgeParts, Mixture
from smallgroup.spaces.weights import initial_weights
from tests.kernels.layers import images, layer

FAST = [path for path in kernels.available() if path != "plain"]
KIND = Kind("cell", ((0, 1), (0, 2), (1, 2)), OPERATIONS)


def nodes(build_edge: object, strides: tuple[int, ...] = (1, 1, 1)) -> tuple[MixedNodes, dict[str, Tensor]]:
    """Three mixed edges over six channels, and weights for them."""

    def make(name: str, channels: int, stride: int) -> nn.Module:
        return operations.build(name, channels, stride, SEARCH)

    with torch.device("meta"):
        made = MixedNodes(KIND, 6, strides, make=make, build_edge=build_edge, mask=None)  # type: ignore[arg-type]
    return made, initial_weights(made, torch.Generator().manual_seed(3), dtype=torch.float64)


def node_states(
    path: str, module: MixedNodes, weights: dict[str, Tensor], evaluate: str = "all"
) -> tuple[list[Tensor], list[Tensor | None]]:
    """All nodes, and the gradients of the weights of the last one."""
    table = torch.rand(KIND.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    table[:, ::2] = 0 if evaluate != "all" else table[:, ::2]
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
    x = images((3, 6, 8, 8))
    mixture = Mixture(table, evaluate=evaluate)  # type: ignore[arg-type]
    with kernels.using(path):
        states = functional_call(module, leaves, ([x], mixture, 0))
        loss = (states[-1] * images(tuple(states[-1].shape), 7)).sum()
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return [state.detach() for state in states], list(found)


def assert_same(module: MixedNodes, weights: dict[str, Tensor], evaluate: str = "all") -> None:
    plain, expected = node_states("plain", module, weights, evaluate)
    for path in FAST:
        fast, found = node_states(path, module, weights, evaluate)
        for a, b in zip(fast, plain, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
        assert [g is None for g in found] == [g is None for g in expected]
        for g, e in zip(found, expected, strict=True):
            if g is not None and e is not None:
                torch.testing.assert_close(g, e, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("name", ["sep_conv_3x3", "dil_conv_5x5"])
def test_second_derivatives_are_refused(name: str, path: str) -> None:
    module, x = layer(name, 4, 1, SEARCH), images((2, 4, 6, 6)).requires_grad_()
    with kernels.using(path):
        y = module(x).square().sum()
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(y, x, create_graph=True)


@pytest.mark.parametrize("average", [False, True])
def test_second_derivatives_of_pools_are_refused(average: bool) -> None:
    if "native" not in FAST:
        pytest.skip("there are no native kernels here")
    x = images((2, 4, 6, 6)).requires_grad_()
    with kernels.using("native"):
        backend = kernels.backend_for(x)
    assert backend is not None
    y = backend.pool(x, average=average, stride=1, normed=False).value
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(y.square().sum(), x, create_graph=True)


@pytest.mark.parametrize("evaluate", ["all", "active", "detached"])
def test_operations_that_take_no_part_have_no_gradient(evaluate: str) -> None:
    assert_same(*nodes(MixedEdge), evaluate)


class _FewChannels(MixedEdge):
    """Edges that differ in how many channels they mix."""

    counts = (2, 6, 4)

    def __init__(self, parts: EdgeParts, first: int) -> None:
        super().__init__(EdgeParts(parts.operations, first, parts.stride, parts.make))
        self.first = first

    def finish(self, mixed: Tensor, inputs: Tensor, choice: Choice) -> Tensor:  # noqa: ARG002
        return torch.cat([mixed, inputs[:, self.first :]], dim=1)


def test_edges_may_take_parts_of_different_size() -> None:
    counts = iter(_FewChannels.counts)
    assert_same(*nodes(lambda parts: _FewChannels(parts, next(counts))))


class _Doubled(MixedEdge):
    def _output(self, i: int, name: str, inputs: Tensor, choice: Choice) -> Tensor:
        return 2 * super()._output(i, name, inputs, choice)


def test_an_edge_with_a_way_of_its_own_goes_it() -> None:
    assert_same(*nodes(_Doubled))
    kinds = iter((_Doubled, MixedEdge, _Doubled))
    assert_same(*nodes(lambda parts: next(kinds)(parts)))  # noqa: PLW0108 -- another kind for every edge


def test_edges_of_different_strides_may_leave_a_node() -> None:
    kind = Kind("cell", ((0, 1), (0, 2)), OPERATIONS)

    def make(name: str, channels: int, stride: int) -> nn.Module:
        return operations.build(name, channels, stride, SEARCH)

    with torch.device("meta"):
        module = MixedNodes(kind, 6, (1, 2), make=make, build_edge=MixedEdge, mask=None)
    weights = initial_weights(module, torch.Generator().manual_seed(3), dtype=torch.float64)
    mixture = Mixture(torch.rand(kind.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64))
    results = {}
    for path in ("plain", *FAST):
        with kernels.using(path):
            results[path] = functional_call(module, weights, ([images((3, 6, 8, 8))], mixture, 0))
    for path in FAST:
        for a, b in zip(results[path], results["plain"], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("path", FAST)
def test_who_watches_an_edge_sees_it(path: str) -> None:
    module, weights = nodes(MixedEdge)
    seen: list[object] = []
    module.edges[1].register_forward_hook(lambda *_: seen.append(1))
    node_states(path, module, weights)
    assert len(seen) == 1


FORMS: dict[str, list[nn.Module]] = {
    "dilated": [nn.ReLU(), nn.Conv2d(4, 4, 3, padding=2, dilation=2), nn.BatchNorm2d(4)],
    "reflecting": [nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4)],
    "leaky": [nn.LeakyReLU(0.3), nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)],
    "without border": [nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)],
    "grouped": [nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4)],
    "wide": [nn.ReLU(), nn.Conv2d(4, 4, 9, padding=4, groups=4), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)],
    "long": [nn.ReLU(), nn.Conv2d(4, 4, (7, 1), padding=(3, 0)), nn.BatchNorm2d(4)],
    "another epsilon": [nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4, eps=0.1)],
    "a late stride": [
        *(nn.ReLU(), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)),
        *(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4)),
    ],
    "no norm": [nn.ReLU(), nn.Conv2d(4, 4, 1)],
    "no convolution": [nn.ReLU(), nn.BatchNorm2d(4)],
    "a norm alone": [nn.BatchNorm2d(4)],
    "no norm at the end": [nn.ReLU(), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()],
}


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("form", FORMS)
def test_layers_of_another_form_are_computed_as_they_are(form: str, path: str) -> None:
    module, x = Convolutions(*copy.deepcopy(FORMS[form])).double(), images((3, 4, 10, 10))
    with kernels.using("plain"):
        expected = copy.deepcopy(module)(x)
    with kernels.using(path):
        torch.testing.assert_close(module(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("path", FAST)
def test_frozen_norms_stay_frozen_while_a_network_trains(path: str) -> None:
    design = DartsDesign(images=ImageSpec(4, 3, 16), channels=4, cells=3)
    network = build_network(published()["DARTS_V2"], design).double().train()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eval()
    x = images((4, 3, 16, 16))
    with kernels.using("plain"):
        expected = network(x)
    with kernels.using(path):
        torch.testing.assert_close(network(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("path", ["plain", *FAST])
@pytest.mark.parametrize("style", [SEARCH, FULL], ids=["search", "full"])
@pytest.mark.parametrize("name", ["sep_conv_3x3", "dil_conv_3x3", "relu_conv1", "relu_conv3", "factorized"])
def test_one_value_per_channel_is_refused(name: str, style: object, path: str) -> None:
    module = layer(name, 4, 1, style)  # type: ignore[arg-type]
    with kernels.using(path), pytest.raises(ValueError, match=r"more than (1|one) value per channel"):
        module(images((1, 4, 1, 1)))


@pytest.mark.parametrize("path", ["plain", *FAST])
def test_one_value_per_channel_is_refused_in_a_supernet(path: str) -> None:
    space = DartsSpace(channels=4, cells=3, images=ImageSpec(10, 3, 4))
    supernet = space.supernet(MixedEdge, {})
    weights = initial_weights(supernet, torch.Generator().manual_seed(0))
    mixtures = {name: Mixture(torch.ones(kind.shape)) for name, kind in space.kinds.items()}
    with kernels.using(path), pytest.raises(ValueError, match=r"more than (1|one) value per channel"):
        functional_call(supernet, weights, (torch.randn(1, 3, 4, 4), mixtures))


@pytest.mark.parametrize("path", FAST)
@pytest.mark.parametrize("size", [(2, 4, 0, 5), (2, 4, 5, 0)])
@pytest.mark.parametrize("stride", [1, 2])
def test_images_without_pixels_are_an_error_and_no_crash(stride: int, size: tuple[int, ...], path: str) -> None:
    module = layer("sep_conv_3x3", 4, stride, SEARCH)
    with kernels.using(path), pytest.raises((ValueError, RuntimeError)):
        module(torch.zeros(size, dtype=torch.float64))


@pytest.mark.parametrize("path", FAST)
def test_an_outlier_in_the_corner_does_not_spoil_the_statistics(path: str) -> None:
    module = relu_conv_norm(1, 1, SEARCH)
    with torch.no_grad():
        next(module.parameters()).fill_(1.0)
    x = images((2, 1, 96, 96)) + 10
    x[:, :, 0, 0] = 1000
    with kernels.using("plain"):
        expected = copy.deepcopy(module).double()(x)
    with kernels.using(path):
        found = module(x.float())
    assert float((found - expected).detach().abs().max() / expected.detach().abs().max()) < 2e-5


@pytest.mark.parametrize("path", FAST)
def test_pools_of_what_is_no_number(path: str) -> None:
    x = images((2, 9, 6, 6))
    x[1, 8, 2, 2] = torch.nan
    with kernels.using(path):
        backend = kernels.backend_for(x)
    assert backend is not None
    for average in (False, True):
        found = backend.pool(x, average=average, stride=1, normed=False).value.isnan()
        assert found[1, 8, 1:4, 1:4].all()
        assert int(found.sum()) == 9


def test_scales_and_shifts_of_terms_that_are_weighed() -> None:
    """The sum against its formula, with weights that are not one and norms that have a scale and a shift."""
    if "native" not in FAST:
        pytest.skip("there are no native kernels here")
    ys = [images((3, 5, 4, 4), seed).requires_grad_() for seed in range(3)]
    affines = [images((2, 5), 10 + seed).requires_grad_() for seed in range(2)]
    weights = torch.tensor([0.3, -1.7, 0.9], dtype=torch.float64, requires_grad=True)
    with kernels.using("native"):
        backend = kernels.backend_for(ys[0])
    assert backend is not None

    def known(y: Tensor) -> Tensor:
        with torch.no_grad():
            variance, mean = torch.var_mean(y, (0, 2, 3), correction=0)
            return torch.stack([mean, (variance + kernels.EPSILON).rsqrt(), variance])

    terms = [Term(y, known(y), a) for y, a in zip(ys, affines, strict=False)]
    found = backend.mix([*terms, Term(ys[2])], weights)
    normed = [nn.functional.batch_norm(y, None, None, a[0], a[1], True) for y, a in zip(ys, affines, strict=False)]
    expected = sum(w * y for w, y in zip(weights, [*normed, ys[2]], strict=True))
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    g = images(tuple(found.shape), 20)
    leaves = [*ys, *affines, weights]
    for a, b in zip(torch.autograd.grad(found, leaves, g), torch.autograd.grad(expected, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
