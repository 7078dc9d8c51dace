"""Torch optimizers under the group: what a committed step moved, and its derivative in the gradient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from smallgroup.group.learner import Learner
from smallgroup.group.tensors import Point, Tensors, Vector, constants, scaled
from smallgroup.runtime.checks import check_number


@dataclass(frozen=True)
class Optimizers:
    """The optimizers of one learner, and the largest L2 norm its gradients may have.

    What is None becomes the plain gradient step of the paper's equations, or no clipping. Learning-rate
    schedules are attached from outside, to these very objects.
    """

    v: Optimizer | None = None
    w: Optimizer | None = None
    architecture: Optimizer | None = None
    v_clip: float | None = None
    w_clip: float | None = None
    architecture_clip: float | None = None


@dataclass(frozen=True)
class Move:
    """One step of one set of weights: where it started, where it led, and d(step)/d(gradient) per tensor.

    That derivative is the xi of the paper's equations: a number per tensor for SGD, a tensor for Adam.
    """

    before: Tensors
    after: Tensors
    xi: Mapping[str, float | Tensor]

    def direction(self, gradient: Mapping[str, Tensor | None]) -> Vector[Tensor]:
        """Return xi * gradient: a change of the *objective's* gradient by e moves `after` by -xi e."""
        known = {name: g for name, g in gradient.items() if g is not None}
        rates = [self.xi[name] for name in known]
        if len(set(rates)) == 1 and isinstance(rates[0], float):
            products = scaled(list(known.values()), rates[0])
        else:
            products = [rate * g for rate, g in zip(rates, known.values(), strict=True)]
        moved = dict(zip(known, products, strict=True))
        return Vector({name: moved[name] if name in moved else torch.zeros_like(t) for name, t in self.before.items()})


def plain_move(weights: Tensors, gradient: Mapping[str, Tensor | None], optimizer: Optimizer) -> Move:
    """Compute Eqs. (4) and (5): P' = P - xi grad, at the optimizer's learning rates, without changing anything."""
    rates = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
    before = Point(constants(weights))
    xi = {name: rates[id(tensor)] if gradient[name] is not None else 0.0 for name, tensor in weights.items()}
    after = {
        name: tensor if (g := gradient[name]) is None else torch.add(tensor, g, alpha=-xi[name])
        for name, tensor in before.items()
    }
    return Move(before, Point(after), xi)


def committed_move(
    weights: Tensors,
    gradient: Vector[Tensor | None],
    optimizer: Optimizer,
    clip: float | None,
    *,
    before: Tensors,
    after: Tensors,
    with_xi: bool,
) -> Move:
    """Step the weights in place with their optimizer; `before` is a copy of where they stood.

    `after` is the weights themselves, as constants. A weight without gradient (it took no part) is left alone, as
    torch optimizers do.
    """
    factor = clip_factor(gradient, clip)
    lay_down(gradient, factor, weights)
    # In second-order modes norms are read, so that the factor is a number.
    xi = _derivatives(optimizer, weights, float(factor)) if with_xi else {}
    take_step(optimizer, weights)
    return Move(before, after, xi)


def lay_down(gradient: Mapping[str, Tensor | None], factor: float | Tensor, tensors: Tensors) -> None:
    """Give each tensor its part of the gradient, times a factor, where an optimizer looks for it."""
    if isinstance(factor, Tensor) or factor != 1.0:
        known = {name: g for name, g in gradient.items() if g is not None}
        gradient = dict(zip(known, scaled(list(known.values()), factor), strict=True))
    for name, tensor in tensors.items():
        tensor.grad = gradient.get(name)


def take_step(optimizer: Optimizer, tensors: Tensors) -> None:
    """Take one optimizer step on the gradients that are set, and then remove them."""
    optimizer.step()
    for tensor in tensors.values():
        tensor.grad = None


def clip_factor(gradient: Vector[Tensor | None], clip: float | None) -> float | Tensor:
    """Return what the gradient is multiplied by so that its norm is at most `clip`; torch's rule, 1e-6 included.

    A norm that was left on a device gives a factor there.
    """
    if clip is None:
        return 1.0
    if gradient.unread is not None:
        # torch.nn.utils.clip_grad_norm_ adds 1e-6 too: the same steps as without a group.
        return (clip / (gradient.unread + 1e-6)).clamp(max=1.0)
    return min(1.0, clip / (gradient.norm + 1e-6))


def _derivatives(optimizer: Optimizer, weights: Tensors, factor: float) -> dict[str, float | Tensor]:
    """Return xi of every weight for the gradients set, which were multiplied by a factor; 0 where there is none."""
    xi: dict[str, float | Tensor] = dict.fromkeys(weights, 0.0)
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    derivative = step_derivative.dispatch(type(optimizer))
    for name, tensor in weights.items():
        if tensor.grad is not None:
            xi[name] = factor * derivative(optimizer, groups[id(tensor)], tensor, tensor.grad)
    return xi


@singledispatch
def step_derivative(
    optimizer: Optimizer,
    group: dict[str, Any],  # noqa: ARG001
    parameter: Tensor,  # noqa: ARG001
    gradient: Tensor,  # noqa: ARG001
) -> float | Tensor:
    """Return minus the derivative of the step that `optimizer` is about to take in the gradient it is given.

    Buffers are what they are before the step. Known for SGD, Adam and AdamW; for another optimizer register it:
    `@step_derivative.register` on a function whose first argument is annotated with the optimizer's class.
    """
    raise TypeError(_unknown(optimizer))


@step_derivative.register
def _(optimizer: SGD, group: dict[str, Any], parameter: Tensor, gradient: Tensor) -> float | Tensor:  # noqa: ARG001
    rate, momentum = float(group["lr"]), float(group["momentum"])
    if group["nesterov"]:
        return rate * (1 + momentum)
    dampening = float(group["dampening"])
    if momentum == 0 or dampening == 0:
        return rate
    # Torch does not dampen the gradient that fills an empty momentum buffer.
    first = optimizer.state.get(parameter, {}).get("momentum_buffer") is None
    return rate if first else rate * (1 - dampening)


@step_derivative.register
def _(optimizer: Adam, group: dict[str, Any], parameter: Tensor, gradient: Tensor) -> float | Tensor:
    """Return d/dg [m^ / (sqrt(v^) + eps)], with m, v the moments after the step, both depending on g."""
    b1, b2 = (float(b) for b in group["betas"])
    state = optimizer.state.get(parameter, {})
    t = float(state.get("step", 0)) + 1
    decoupled = isinstance(optimizer, AdamW) or group.get("decoupled_weight_decay", False)
    g = gradient if decoupled else gradient + float(group["weight_decay"]) * parameter.detach()
    m = (1 - b1) * g + b1 * state.get("exp_avg", 0.0)
    v = (1 - b2) * g * g + b2 * state.get("exp_avg_sq", 0.0)
    root = (v / (1 - b2**t)).sqrt()
    scale = root + float(group["eps"])
    of_root = (1 - b2) * g / ((1 - b2**t) * root)
    of_root = torch.where(root > 0, of_root, torch.zeros_like(root))
    rate = float(group["lr"])
    derivative: Tensor = rate / (1 - b1**t) * ((1 - b1) / scale - m * of_root / scale**2)
    return derivative


def complete(
    given: Sequence[Optimizers] | None,
    learners: Sequence[Learner],
    v_lr: float,
    w_lr: float,
    architecture_lr: float,
) -> list[Optimizers]:
    """Return the optimizers, plain SGD by default; given ones are checked against their tensors."""
    for name, rate in (("v_lr", v_lr), ("w_lr", w_lr), ("architecture_lr", architecture_lr)):
        check_number(name, rate)
    if given is None:
        given = [Optimizers()] * len(learners)
    if not isinstance(given, Sequence) or not all(isinstance(each, Optimizers) for each in given):
        raise TypeError("optimizers must be a list of Optimizers, one per learner")
    if len(given) != len(learners):
        raise ValueError(
            f"optimizers must be given for each learner, but got {len(given)} for {len(learners)} learners"
        )
    result = []
    for k, (asked, learner) in enumerate(zip(given, learners, strict=True)):
        for role in ("v", "w", "architecture"):
            limit = getattr(asked, f"{role}_clip")
            if limit is not None:
                check_number(f"{role}_clip", limit, positive=True)
        result.append(
            Optimizers(
                v=_over(asked.v, learner.v or {}, v_lr, f"v of learner {k}"),
                w=_over(asked.w, learner.w, w_lr, f"w of learner {k}"),
                architecture=_over(
                    asked.architecture, learner.architecture, architecture_lr, f"architecture of learner {k}"
                ),
                v_clip=asked.v_clip,
                w_clip=asked.w_clip,
                architecture_clip=asked.architecture_clip,
            )
        )
    return result


def check_differentiable(optimizer: Optimizer | None) -> None:
    """Refuse optimizers of V and W without d(step)/d(gradient), which second-order modes need."""
    if optimizer is None:
        return
    if step_derivative.dispatch(type(optimizer)) is step_derivative.dispatch(object):
        raise TypeError(_unknown(optimizer))
    if any(group.get("amsgrad") for group in optimizer.param_groups):
        raise ValueError('the step of Adam with amsgrad has no known derivative here; use hypergradient="first-order"')


def _over(optimizer: Optimizer | None, tensors: Tensors, rate: float, owner: str) -> Optimizer | None:
    if not tensors:
        if optimizer is not None:
            raise ValueError(f"an optimizer was given over {owner}, but there are no such tensors")
        return None
    if optimizer is None:
        return SGD(list(tensors.values()), lr=rate, foreach=True)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TypeError(f"the optimizer over {owner} must step on one gradient, but LBFGS evaluates the loss itself")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [name for name, tensor in tensors.items() if id(tensor) not in held]
    if missing or len(held) != len(tensors):
        what = f"{missing[0]!r} is not among them" if missing else f"it holds {len(held)}"
        raise ValueError(f"the optimizer over {owner} must hold exactly its {len(tensors)} tensors, but {what}")
    if any(group.get("maximize") for group in optimizer.param_groups):
        raise ValueError(f"the optimizer over {owner} must minimize, but maximize=True is set")
    return optimizer


def _unknown(optimizer: Optimizer) -> str:
    return (
        "second-order hypergradients need the derivative of the weight step in its gradient, which is known for "
        f"SGD, Adam and AdamW, but got {type(optimizer).__name__}; "
        'register it with step_derivative or use hypergradient="first-order"'
    )
