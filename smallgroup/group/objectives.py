"""The losses of the three stages, each as a function of (weights, architecture) alone.

An objective returns its loss and the table of log-probabilities it came from. Stage by stage the group asks
for the gradients of these functions, and only for those it needs. A learner may answer with several samples: then
each has a loss, and the learner says how they become one.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.group.learner import Learner, log_mixture
from smallgroup.group.tensors import Tensors, Vector, constants, filled, variables
from smallgroup.runtime import Phase


class Loss(NamedTuple):
    """A scalar loss and the log-probabilities, [batch, classes], behind it.

    Where the loss is measured against soft targets t, `log_q` is minus its derivative in t, times the batch size.
    """

    value: Tensor
    log_q: Tensor


class Gradients(NamedTuple):
    """A loss and its gradients in the weights and in the architecture, as far as they were asked for."""

    loss: Loss
    weights: Vector[Tensor | None]
    architecture: dict[str, Tensor | None]


Objective = Callable[[Tensors, Tensors], Loss]


def on_labels(
    learner: Learner, inputs: Tensor, labels: Tensor, phase: Phase, *, highest: int | None = None
) -> Objective:
    """L(., A_k, D): cross-entropy with human labels. Stage 1, the first term of stage 2, and stage 3.

    `highest` is the largest label, if it is known already: on a GPU it has to be waited for.
    """
    highest = int(labels.max()) if highest is None else highest
    batch = "validation" if phase == "val" else "train"

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        log_q = learner.log_q(weights, architecture, inputs, phase)
        if highest >= log_q.shape[-1]:
            raise ValueError(
                f"{batch} labels must be below the number of classes, but got {highest} for {log_q.shape[-1]} classes"
            )
        y = labels.to(log_q.device, torch.int64)
        combine = _combiner(learner, architecture, inputs, phase)
        return Loss(combine(_per_sample(log_q, lambda q: functional.nll_loss(q, y))), log_mixture(log_q))

    return objective


def on_targets(learner: Learner, inputs: Tensor, targets: Tensor, weight: float) -> Objective:
    """weight * CE(f(., A_k, u), t_k): the pseudo-label term of stage 2, for the sum t_k of the peers' labels.

    Cross-entropy is linear in its target, so one pass serves all peers, whatever their number.
    """

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        log_q = learner.log_q(weights, architecture, inputs, "w_unlabeled")
        combine = _combiner(learner, architecture, inputs, "w_unlabeled")
        losses = _per_sample(log_q, lambda q: -_mean_product(targets, q))
        return Loss(weight * combine(losses), _weighted(combine, losses, log_q))

    return objective


def on_uniform(learner: Learner, inputs: Tensor, weight: float) -> Objective:
    """The same with targets that prefer no class: a control that smooths and teaches nothing."""

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        log_q = learner.log_q(weights, architecture, inputs, "w_unlabeled")
        combine = _combiner(learner, architecture, inputs, "w_unlabeled")
        return Loss(weight * combine(_per_sample(log_q, lambda q: -q.mean())), log_mixture(log_q))

    return objective


def on_targets_jointly(
    learner: Learner, inputs: Tensor, targets: Tensor, peers_log_q: Tensor, weight: float
) -> Objective:
    """The joint form of Eq. (12): W_k also moves because it makes the labels that its peers are measured by."""

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        log_q = learner.log_q(weights, architecture, inputs, "w_unlabeled")
        if log_q.dim() == 3:
            raise ValueError('labels_from="w-joint" needs learners of one sample, but one answers with several')
        both = _mean_product(targets, log_q) + _mean_product(log_q.exp(), peers_log_q)
        return Loss(weight * -both, log_q)

    return objective


def of_labels(
    learner: Learner, inputs: Tensor, sensitivity: Tensor, weight: float, *, moved_labels: Tensor | None, phase: Phase
) -> Objective:
    """What the labels of learner k do to the validation losses of those it teaches, to first order.

    The derivative of sum_j L(W'_j, A_j, D_val) along a change of p_k is `weight * mean_batch sum_c p_k S_k`,
    with S_k the sum of its pupils' sensitivities (see `hypergradients`). In the joint form the predictions of
    k meet the labels of its peers, which move too: `moved_labels` is their derivative.
    """

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        log_q = log_mixture(learner.log_q(weights, architecture, inputs, phase))
        value = _mean_product(log_q.exp(), sensitivity)
        if moved_labels is not None:
            value = value + _mean_product(moved_labels, log_q)
        return Loss(weight * value, log_q)

    return objective


def gradients(
    objective: Objective,
    weights: Tensors,
    architecture: Tensors,
    *,
    of_weights: bool = False,
    of_architecture: bool = False,
) -> Gradients:
    """The loss and, in one backward pass, just the gradients asked for.

    A weight or architecture tensor that took no part in the pass has None. What is not asked for enters as a
    constant, so that the backward pass does not compute it; with nothing asked for no graph is built.
    """
    weights = variables(weights) if of_weights else constants(weights)
    architecture = variables(architecture) if of_architecture else constants(architecture)
    names_w = list(weights) if of_weights else []
    names_a = list(architecture) if of_architecture else []
    wanted = [*(weights.values() if of_weights else ()), *(architecture.values() if of_architecture else ())]
    with torch.set_grad_enabled(bool(wanted)):
        loss = objective(weights, architecture)
    found: list[Tensor | None] = [None] * len(wanted)
    if loss.value.requires_grad:
        found = list(torch.autograd.grad(loss.value, wanted, allow_unused=True))
    return Gradients(
        Loss(loss.value.detach(), loss.log_q.detach()),
        Vector(zip(names_w, found[: len(names_w)], strict=True)),
        dict(zip(names_a, found[len(names_w) :], strict=True)),
    )


def _per_sample(log_q: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The loss of each sample, [samples]; a scalar where there is but one."""
    return loss(log_q) if log_q.dim() == 2 else torch.stack([loss(q) for q in log_q])


def _combiner(learner: Learner, architecture: Tensors, inputs: Tensor, phase: Phase) -> Callable[[Tensor], Tensor]:
    """How the losses of the samples become one."""

    def combine(losses: Tensor) -> Tensor:
        return losses if losses.dim() == 0 else learner.combine(losses, architecture, inputs.shape[0], phase)

    return combine


def _weighted(combine: Callable[[Tensor], Tensor], losses: Tensor, log_q: Tensor) -> Tensor:
    """The samples' tables, each with the weight its loss has in the combined one."""
    if log_q.dim() == 2:
        return log_q
    with torch.enable_grad():
        nothing = torch.zeros_like(losses, requires_grad=True)
        (shares,) = torch.autograd.grad(combine(losses + nothing), nothing, create_graph=losses.requires_grad)
    return torch.einsum("n,nbc->bc", shares, log_q)


def _mean_product(targets: Tensor, values: Tensor) -> Tensor:
    """The sum over classes, averaged over the batch."""
    return (targets.to(values) * values).sum(dim=1).mean()


def penalty_gradient(learner: Learner) -> dict[str, Tensor] | None:
    """The gradient of the learner's penalty on its architecture, if it has one."""
    leaves = variables(learner.architecture)
    with torch.enable_grad():
        value = learner.penalty(leaves) if leaves else None
    if value is None:
        return None
    if not isinstance(value, Tensor) or value.dim() or not value.requires_grad:
        raise TypeError("a penalty must be a scalar tensor that depends on the architecture")
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return filled(dict(zip(leaves, found, strict=True)), leaves)
