"""Invalid input raises an error that names the rule and the value, and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import LBFGS, SGD

from smallgroup.group import Learner, ModuleApply, Optimizers, SmallGroup
from tests.group.networks import make_batches, make_learners, same_bits, state_of


def linear(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
    result: Tensor = inputs.flatten(1) @ weights["m"] * architecture["a"]
    return result


def linear_learner(classes: int = 4, apply: Callable[..., Any] = linear) -> Learner:
    w = [torch.full((72, classes), 1 / 9, dtype=torch.float64) for _ in range(2)]
    return Learner(apply, {"a": torch.ones(classes, dtype=torch.float64)}, {"m": w[0]}, {"m": w[1]})


def build(**options: Any) -> Callable[[], object]:
    return lambda: SmallGroup(make_learners(2), **options)


def optimizers(**options: Any) -> Callable[[], object]:
    def call() -> object:
        learners = make_learners(1)
        return SmallGroup(learners, optimizers=[Optimizers(**{n: f(learners[0]) for n, f in options.items()})])

    return call


def shared() -> object:
    first, second = make_learners(2)
    return SmallGroup([first, Learner(second.apply, second.architecture, second.v, second.v or {})])


def overlapping() -> object:
    memory = torch.zeros(400)
    v, w = memory[:288].view(72, 4), memory[100:388].view(72, 4)
    return SmallGroup([Learner(linear, {}, {"m": v}, {"m": w})])


def inference() -> object:
    with torch.inference_mode():
        return Learner(linear, {}, None, {"m": torch.zeros(2)})


T = torch.zeros
CONSTRUCTION: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "empty group": (lambda: SmallGroup([]), ValueError, "at least one learner, but got none"),
    "negative lambda": (build(lam=-0.5), ValueError, "0 <= lam < infinity must hold, but got lam=-0.5"),
    "lambda not a number": (build(lam=float("nan")), ValueError, "but got lam=nan"),
    "unknown mode": (
        build(hypergradient="second-order"),
        ValueError,
        "hypergradient must be one of first-order, finite-difference, exact, but got 'second-order'",
    ),
    "radius": (build(radius=0.0), ValueError, "0 < radius < infinity must hold, but got radius=0.0"),
    "rate": (build(w_lr=-1.0), ValueError, "0 <= w_lr < infinity must hold, but got w_lr=-1.0"),
    "not a learner": (lambda: SmallGroup([linear]), TypeError, "must be of type Learner, but number 0 is function"),  # type: ignore[list-item]
    "shared tensors": (shared, ValueError, r"memory of its own, but w\['\w+.\w+'\] of learner 1 overlaps v\["),
    "no v": (
        lambda: SmallGroup([Learner(linear, {}, None, {"m": T(72, 4)}) for _ in range(2)]),
        ValueError,
        "learners that teach need first weights v, but learner 0 has none",
    ),
    "too few optimizers": (build(optimizers=[Optimizers()]), ValueError, "but got 1 for 2 learners"),
    "optimizer of others": (
        optimizers(w=lambda a: SGD(list((a.v or {}).values()), lr=0.1)),
        ValueError,
        "the optimizer over w of learner 0 must hold exactly its .* 'stem.weight' is not among them",
    ),
    "optimizer of more": (
        optimizers(w=lambda a: SGD([*a.w.values(), T(2)], lr=0.1)),
        ValueError,
        "must hold exactly its 5 tensors, but it holds 6",
    ),
    "maximize": (
        optimizers(w=lambda a: SGD(list(a.w.values()), lr=0.1, maximize=True)),
        ValueError,
        "must minimize, but maximize=True is set",
    ),
    "LBFGS": (optimizers(w=lambda a: LBFGS(list(a.w.values()))), TypeError, "LBFGS evaluates the loss itself"),
    "clip": (optimizers(w_clip=lambda _: 0.0), ValueError, "0 < w_clip < infinity must hold, but got w_clip=0.0"),
    "clip no number": (optimizers(w_clip=lambda _: "a"), TypeError, "w_clip must be a number, but got str"),
    "overlapping tensors": (overlapping, ValueError, "memory of its own, but w.* of learner 0 overlaps v"),
    "optimizers no list": (build(optimizers=Optimizers()), TypeError, "must be a list of Optimizers, one per learner"),
    "optimizers of torch": (build(optimizers=[None, None]), TypeError, "must be a list of Optimizers"),
    "optimizer of nothing": (
        lambda: SmallGroup([Learner(linear, {}, None, {"m": (m := T(72, 4))})], optimizers=[Optimizers(v=SGD([m]))]),
        ValueError,
        "an optimizer was given over v of learner 0, but there are no such tensors",
    ),
    "one learner": (lambda: SmallGroup(linear_learner()), TypeError, "must be a list of Learner, but got Learner"),  # type: ignore[arg-type]
    "radius no number": (build(radius=None), TypeError, "radius must be a number, but got NoneType"),
    "lambda a tensor": (build(lam=torch.ones(2)), TypeError, "lam must be a number, but got Tensor"),
    "apply": (lambda: Learner(None, {}, None, {"m": T(2)}), TypeError, "apply must be a function .*NoneType"),  # type: ignore[arg-type]
    "w a list": (lambda: Learner(linear, {}, None, [T(2)]), TypeError, "w must be a dictionary of tensors"),  # type: ignore[arg-type]
    "expanded": (
        lambda: Learner(linear, {}, None, {"m": torch.ones(1, 3).expand(6, 3)}),
        ValueError,
        "w must hold dense tensors, but 'm' is sparse or expanded",
    ),
    "sparse": (lambda: Learner(linear, {}, None, {"m": T(3, 3).to_sparse()}), ValueError, "'m' is sparse or expanded"),
    "inference": (inference, ValueError, "w must not be made in inference mode, but 'm' was"),
    "unknown name": (
        lambda: Learner(ModuleApply(torch.nn.Linear(2, 2)), {}, None, {"weigth": T(2, 2)}),
        ValueError,
        "named like parameters of the module, but it has no 'weigth'",
    ),
    "name twice": (
        lambda: Learner(ModuleApply(torch.nn.Linear(2, 2)), {"bias": T(2)}, None, {"bias": T(2)}),
        ValueError,
        "must be weight or architecture, but 'bias' is both",
    ),
    "no weights": (lambda: Learner(linear, {}, None, {}), ValueError, "w must hold at least one tensor"),
    "integers": (
        lambda: Learner(linear, {}, None, {"m": torch.ones(2, dtype=torch.int64)}),
        TypeError,
        "w must hold floating-point tensors, but 'm' is a torch.int64 tensor",
    ),
    "no tensor": (
        lambda: Learner(linear, {"a": 1.0}, None, {"m": T(2)}),  # type: ignore[dict-item]
        TypeError,
        "architecture must hold floating-point tensors, but 'a' is of type float",
    ),
    "not a leaf": (
        lambda: Learner(linear, {}, None, {"m": T(2, requires_grad=True) * 2}),
        ValueError,
        "w must hold leaf tensors, .* but 'm' is the result of an operation",
    ),
    "v unlike w": (
        lambda: Learner(linear, {}, {"m": T(2)}, {"m": T(3)}),
        ValueError,
        r"the same names and shapes, but 'm' is \(2,\) in v and \(3,\) in w",
    ),
}


@pytest.mark.parametrize("case", CONSTRUCTION)
def test_construction(case: str) -> None:
    make, error, message = CONSTRUCTION[case]
    with pytest.raises(error, match=message):
        make()


def ignores(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:  # noqa: ARG001
    result: Tensor = inputs.flatten(1) @ weights["m"]
    return result


def without_weights(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:  # noqa: ARG001
    result: Tensor = inputs.flatten(1)[:, :4] * architecture["a"]
    return result


X, Y = make_batches()[0]
USE: dict[str, tuple[list[Callable[[], Learner]], dict[str, Any], type[Exception], str]] = {
    "classes": (
        [linear_learner, lambda: linear_learner(7)],
        {},
        ValueError,
        "learners must agree on the number of classes, but learner 0 has 4 and learner 1 has 7",
    ),
    "labels too large": (
        [linear_learner],
        {"train": (X, Y + 4)},
        ValueError,
        "train labels must be below the number of classes, but got [4-7] for 4 classes",
    ),
    "label one too large": (
        [linear_learner],
        {"train": (X, torch.full_like(Y, 4))},
        ValueError,
        "train labels must be below the number of classes, but got 4 for 4 classes",
    ),
    "a number": ([linear_learner], {"train": (X[0, 0, 0, 0], Y)}, ValueError, "train must be a batch of inputs"),
    "labels negative": ([linear_learner], {"train": (X, Y - 9)}, ValueError, "train labels must not be negative"),
    "validation labels too large": (
        [linear_learner],
        {"validation": (X, Y + 4)},
        ValueError,
        "validation labels must be below the number of classes",
    ),
    "labels no integers": ([linear_learner], {"train": (X, Y.float())}, TypeError, "must be integers .* torch.float32"),
    "label count": (
        [linear_learner],
        {"train": (X, Y[:2])},
        ValueError,
        r"train must have one label per input, but got labels of shape \(2,\) for 6 inputs",
    ),
    "empty train": ([linear_learner], {"train": (X[:0], Y[:0])}, ValueError, "train must hold at least one input"),
    "empty validation": (
        [linear_learner],
        {"validation": (X[:0], Y[:0])},
        ValueError,
        "validation must hold at least one input, but its batch has size 0",
    ),
    "empty unlabeled": (
        [linear_learner, linear_learner],
        {"unlabeled": X[:0]},
        ValueError,
        "unlabeled must hold at least one input, but its batch has size 0",
    ),
    "no unlabeled": (
        [linear_learner, linear_learner],
        {"unlabeled": None},
        TypeError,
        "unlabeled must be a batch of inputs where learners teach one another, but it is None",
    ),
    "no pair": ([linear_learner], {"train": X}, TypeError, r"train must be a pair \(inputs, labels\), but got Tensor"),
    "ignored architecture": (
        [linear_learner, lambda: linear_learner(apply=ignores)],
        {},
        ValueError,
        "apply must use every architecture tensor, but that of learner 1 ignores 'a'",
    ),
    "ignored weights": (
        [lambda: linear_learner(apply=without_weights)],
        {},
        ValueError,
        "the outputs of learner 0 must depend on its weights",
    ),
    "logits of another shape": (
        [lambda: linear_learner(apply=lambda w, a, x: linear(w, a, x).sum(dim=1))],
        {},
        ValueError,
        r"one row of class scores per input, but got shape \(6,\) for 6 inputs",
    ),
    "no logits": (
        [lambda: linear_learner(apply=lambda w, a, x: (w, a, x))],
        {},
        TypeError,
        "apply must return its outputs as one floating-point tensor, but it is of type tuple",
    ),
}


@pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
@pytest.mark.parametrize("case", USE)
def test_use(case: str, mode: Any) -> None:
    makers, changes, error, message = USE[case]
    learners = [make() for make in makers]
    train, unlabeled, validation = make_batches()
    batches = {"train": train, "unlabeled": unlabeled, "validation": validation, **changes}
    group = SmallGroup(learners, hypergradient=mode)
    before = state_of(learners)
    with pytest.raises(error, match=message):
        group.step(**batches)
    assert same_bits(before, state_of(learners))
    assert group.steps == 0


def test_the_gradient_needs_a_validation_batch() -> None:
    train, unlabeled, _ = make_batches()
    with pytest.raises(TypeError, match="needs a validation batch, but validation is None"):
        SmallGroup(make_learners(2)).architecture_gradients(train, unlabeled, None)  # type: ignore[call-overload]


def test_a_tensor_that_was_replaced_is_noticed() -> None:
    learners = make_learners(2)
    group = SmallGroup(learners)
    learners[1].w["first.weight"] = learners[1].w["first.weight"].clone()
    with pytest.raises(ValueError, match="the tensors of learner 1 must stay the same objects"):
        group.step(*make_batches())


def test_inference_mode_is_named() -> None:
    learners, batches = make_learners(2), make_batches()
    group, before = SmallGroup(learners), state_of(learners)
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"cannot differentiate in torch.inference_mode\(\)"):
        group.step(*batches)
    assert same_bits(before, state_of(learners))
    group.step(*batches)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_labels_may_be_integers_of_any_size(dtype: torch.dtype) -> None:
    (x, y), u, (x_v, y_v) = make_batches()
    expected = SmallGroup(make_learners(2)).architecture_gradients((x, y), u, (x_v, y_v))
    found = SmallGroup(make_learners(2)).architecture_gradients((x, y.to(dtype)), u, (x_v, y_v.to(dtype)))
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_a_module_of_three_arguments_is_an_apply_too() -> None:
    class Linear(torch.nn.Module):
        def forward(self, weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
            return linear(weights, architecture, inputs)

    learners = [linear_learner(apply=Linear()), linear_learner()]
    report = SmallGroup(learners).step(*make_batches())
    assert report.learners[0].validation_loss == report.learners[1].validation_loss


def test_a_single_learner_needs_no_unlabeled_batch_and_no_v() -> None:
    learner = linear_learner()
    train, _, validation = make_batches()
    alone = Learner(linear, learner.architecture, None, learner.w)
    assert SmallGroup([alone]).step(train, None, validation).learners[0].w_loss is not None


class NoForwardMode(torch.autograd.Function):
    """An operation of a user's own that only knows its backward pass."""

    @staticmethod
    def forward(value: Tensor) -> Tensor:
        return 2 * value

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return 2 * gradient


def test_exact_says_so_if_an_operation_has_no_forward_mode() -> None:
    def apply(weights: Any, architecture: Any, inputs: Tensor) -> Tensor:
        result: Tensor = NoForwardMode.apply(linear(weights, architecture, inputs))  # type: ignore[no-untyped-call]
        return result

    learners = [linear_learner(apply=apply) for _ in range(2)]
    before = state_of(learners)
    with pytest.raises(NotImplementedError, match='"exact" needs operations that torch can differentiate in forward'):
        SmallGroup(learners, hypergradient="exact").step(*make_batches())
    assert same_bits(before, state_of(learners))
    SmallGroup(learners, hypergradient="finite-difference").step(*make_batches())
