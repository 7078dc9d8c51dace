"""A learner of the textbook: its tensors ask for gradients all the time, and are stepped one by one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from smallgroup.methods import Relaxed
from smallgroup.runtime import Phase
from smallgroup.runtime.device import current

StudentTensors = dict[str, Tensor]
TrainBatch = tuple[Tensor, Tensor]
StudentLoss = Callable[[StudentTensors], tuple[Tensor, Tensor]]
"""Of weights: the loss, and the log-probabilities behind it."""


@dataclass(frozen=True)
class Rates:
    """The learning rates of V and W, for SGD on clipped gradients."""

    lr: float = 0.025
    momentum: float = 0.9
    weight_decay: float = 3e-4
    clip: float | None = 5.0


@dataclass(frozen=True)
class Moved:
    """Weights before their step, and by what the step multiplied their gradients."""

    before: StudentTensors
    xi: dict[str, float]

    def direction(self, gradients: StudentTensors) -> StudentTensors:
        """Return minus the move that the weights would have made for these gradients."""
        return {name: self.xi[name] * gradient for name, gradient in gradients.items()}


class Student:
    """A network with architecture A and weights V (if it teaches) and W."""

    def __init__(self, apply: Relaxed, rates: Rates, *, teaches: bool, dtype: torch.dtype = torch.float32) -> None:
        method = apply.method
        if method.samples != 1:
            raise ValueError(
                f"the textbook form has one sample per pass, but {method.name} has samples={method.samples}"
            )
        self.apply, self.rates = apply, rates
        where = current()
        self.a = variables(apply.initial_architecture(dtype=dtype, device=where))
        self.v = variables(apply.initial_weights("v", dtype=dtype, device=where)) if teaches else {}
        self.w = variables(apply.initial_weights("w", dtype=dtype, device=where))
        own = method.optimizer
        self.step_a: Optimizer = Adam(
            list(self.a.values()), lr=own.lr, betas=own.betas, weight_decay=own.weight_decay, foreach=False
        )
        self.step_v = self._sgd(self.v) if teaches else None
        self.step_w = self._sgd(self.w)

    def _sgd(self, tensors: StudentTensors) -> SGD:
        rates, values = self.rates, list(tensors.values())
        return SGD(values, lr=rates.lr, momentum=rates.momentum, weight_decay=rates.weight_decay, foreach=False)

    # Losses.

    def log_q(self, weights: StudentTensors, inputs: Tensor, phase: Phase) -> Tensor:
        """Return the log-probabilities of the classes."""
        return functional.log_softmax(self.apply(weights, self.a, inputs, phase=phase), dim=1)

    def on_labels(self, batch: TrainBatch, phase: Phase) -> StudentLoss:
        """Return the cross-entropy with human labels as a function of the weights."""

        def loss(weights: StudentTensors) -> tuple[Tensor, Tensor]:
            log_q = self.log_q(weights, batch[0], phase)
            return functional.nll_loss(log_q, batch[1]), log_q

        return loss

    def on_targets(self, inputs: Tensor, targets: Tensor, lam: float) -> StudentLoss:
        """Return the cross-entropy with the labels of the peers as a function of the weights."""

        def loss(weights: StudentTensors) -> tuple[Tensor, Tensor]:
            log_q = self.log_q(weights, inputs, "w_unlabeled")
            return -lam * (targets * log_q).sum() / len(inputs), log_q

        return loss

    # Gradients and steps.

    def forget(self, weights: StudentTensors) -> None:
        """Clear the gradients of the weights and of the architecture."""
        for tensor in (*weights.values(), *self.a.values()):
            tensor.grad = None

    def move(self, weights: StudentTensors, optimizer: Optimizer | None, *, remember: bool) -> Moved:
        """Step the weights along their gradients; with `remember`, return where they were, for second-order terms."""
        assert optimizer is not None  # whoever has weights has one
        factor = clip(weights, self.rates.clip)
        xi = {name: 0.0 if tensor.grad is None else factor * self.rates.lr for name, tensor in weights.items()}
        before = variables({name: t.detach().clone() for name, t in weights.items()}) if remember else {}
        optimizer.step()
        return Moved(before, xi)

    def move_architecture(self, gradients: StudentTensors) -> None:
        """Step the architecture along a gradient."""
        before = {name: tensor.detach().clone() for name, tensor in self.a.items()}
        for name, tensor in self.a.items():
            tensor.grad = gradients[name]
        clip(self.a, self.apply.method.optimizer.clip)
        self.step_a.step()
        with torch.no_grad():
            self.apply.after_step(self.a, before)


def variables(tensors: StudentTensors) -> StudentTensors:
    """Return the same tensors with gradients enabled."""
    return {name: tensor.requires_grad_() for name, tensor in tensors.items()}


def gradients_of(tensors: StudentTensors) -> StudentTensors:
    """Return the gradients that a backward pass has left, with zeros where it left none."""
    return {
        name: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.clone()
        for name, tensor in tensors.items()
    }


def clip(tensors: StudentTensors, limit: float | None) -> float:
    """Shorten the gradients, tensor by tensor, so that their norm is at most `limit`; by which factor."""
    if limit is None:
        return 1.0
    factor = min(1.0, limit / (norm({n: t.grad for n, t in tensors.items() if t.grad is not None}) + 1e-6))
    if factor < 1:
        for tensor in tensors.values():
            if tensor.grad is not None:
                tensor.grad.mul_(factor)
    return factor


def norm(tensors: StudentTensors) -> float:
    """Return the norm of all tensors as one vector."""
    return float(sum(float(tensor.norm()) ** 2 for tensor in tensors.values()) ** 0.5)
