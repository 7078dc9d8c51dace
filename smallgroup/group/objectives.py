"""The losses of the three stages, each as a function of (weights, architecture) alone.

Stage by stage the group asks for the gradients of these functions, and only for those it needs. What a loss is, the
task says. A learner may answer with several samples: then each has a loss, and the learner says how they become one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from smallgroup.group.batches import Labeled
from smallgroup.group.inputs import Inputs, to_device
from smallgroup.group.learner import Learner
from smallgroup.group.member import Member
from smallgroup.group.tensors import Tensors, Vector, constants, filled, variables
from smallgroup.runtime import Phase


def _no_tables(outputs: Tensor) -> list[Tensor]:  # noqa: ARG001
    return []


class Loss(NamedTuple):
    """A scalar loss, the outputs behind it, and the tables whose derivative along a direction is of interest."""

    value: Tensor
    outputs: Tensor
    tables: Callable[[Tensor], list[Tensor]] = _no_tables
    """A function of the outputs: for a pupil the slope of its loss in each table that it was handed."""


class Gradients(NamedTuple):
    """A loss and its gradients in the weights and in the architecture, as far as they were asked for."""

    loss: Loss
    weights: Vector[Tensor | None]
    architecture: dict[str, Tensor | None]


Objective = Callable[[Tensors, Tensors], Loss]


def on_labels(member: Member, batch: Labeled, phase: Phase) -> Objective:
    """Return L(., A_k, D): the loss on human labels. Stage 1, the first term of stage 2, and stage 3."""
    task = member.task

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        outputs = member.outputs(weights, architecture, batch.inputs, phase)
        task.check_fit(outputs, batch.labels, batch.highest, batch.name)
        labels = to_device(batch.labels, outputs.device)
        return Loss(member.loss(lambda one: member.on_labels(one, labels), outputs, architecture, phase), outputs)

    return objective


def on_handed(
    member: Member,
    inputs: Inputs,
    handed: Sequence[Tensor],
    weight: float,
    *,
    with_slopes: bool = False,
    by_frozen: bool = False,
) -> Objective:
    """Return weight * sum_j l(f(., A_k, u), p_j): the loss of a pupil on the tables it was handed, in stage 2.

    One pass serves all teachers, whatever their number. If the pupil's loss is linear in what it is handed, as
    cross-entropy is, they come as one table, their sum. `by_frozen`: frozen labelers have made the tables.
    """
    phase: Phase = "w_unlabeled"

    def on_all(outputs: Tensor) -> Tensor:
        return _added([member.on_handed(outputs, table) for table in handed])

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        def slopes(outputs: Tensor) -> list[Tensor]:
            return [member.combined_slope(on_all, outputs, table, architecture, phase) for table in handed]

        outputs = member.outputs(weights, architecture, inputs, phase)
        if by_frozen:
            member.check_handed(outputs, inputs, handed)
        value = weight * member.loss(on_all, outputs, architecture, phase)
        return Loss(value, outputs, slopes if with_slopes else _no_tables)

    return objective


def on_nothing(member: Member, inputs: Inputs, weight: float) -> Objective:
    """Return the loss on the table of a teacher who knows nothing: a control that smooths and teaches nothing."""
    phase: Phase = "w_unlabeled"

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        outputs = member.outputs(weights, architecture, inputs, phase)
        value = member.loss(lambda one: member.on_nothing(one, inputs), outputs, architecture, phase)
        return Loss(weight * value, outputs)

    return objective


def on_handed_jointly(
    member: Member, inputs: Inputs, handed: Sequence[Tensor], peers: Sequence[Tensor], weight: float
) -> Objective:
    """Return the joint form of Eq. (12): W_k also moves because it makes what its peers are measured by.

    `peers` are the outputs of those who learn from k; of a loss that is linear in the table, the sum of their slopes.
    """
    task = member.task

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        def tables(outputs: Tensor) -> list[Tensor]:
            slopes = [member.slope(outputs, table) for table in handed]
            return [*slopes, member.hand_over(outputs, inputs)]

        outputs = member.outputs(weights, architecture, inputs, "w_unlabeled")
        member.check_one_sample(outputs)
        as_pupil = [member.on_handed(outputs, table) for table in handed]
        mine = member.hand_over(outputs, inputs)
        if task.linear:
            as_teacher = [-paired(mine, slope) for slope in peers]
        else:
            as_teacher = [member.on_handed(peer, mine) for peer in peers]
        return Loss(weight * _added([*as_pupil, *as_teacher]), outputs, tables)

    return objective


class Taught(NamedTuple):
    """The tables that the pupils of learner k return to it: everything that stage 3 needs of them."""

    sensitivity: Tensor
    """S_k, the sum of its pupils' sensitivities to what it hands over."""
    moved: Sequence[tuple[Tensor, Tensor]] = ()
    """Tables that its peers handed over and their changes, in the joint form; of a linear loss all in one."""


def of_handed(member: Member, inputs: Inputs, taught: Taught, weight: float, *, phase: Phase) -> Objective:
    """Return what the table of learner k does to its pupils' validation losses, to first order.

    The derivative of sum_j L(W'_j, A_j, D_val) along a change of p_k is `weight * mean_batch sum p_k S_k`, with S_k
    the sum of its pupils' sensitivities (see `hypergradients`). In the joint form the predictions of k meet the tables
    of its peers, which move too.
    """

    def objective(weights: Tensors, architecture: Tensors) -> Loss:
        outputs = member.outputs(weights, architecture, inputs, phase)
        value = paired(member.hand_over(outputs, inputs), taught.sensitivity)
        for handed, change in taught.moved:
            value = value + paired(change, member.slope(outputs, handed))
        return Loss(weight * value, outputs)

    return objective


def paired(table: Tensor, slope: Tensor) -> Tensor:
    """Return the sum of the products over all entries of an input, averaged over the batch."""
    return (table.to(slope) * slope).reshape(len(slope), -1).sum(dim=1).mean()


def gradients(
    objective: Objective,
    weights: Tensors,
    architecture: Tensors,
    *,
    of_weights: bool = False,
    of_architecture: bool = False,
) -> Gradients:
    """Return the loss and, in one backward pass, just the gradients asked for.

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
        Loss(loss.value.detach(), loss.outputs.detach(), loss.tables),
        Vector(zip(names_w, found[: len(names_w)], strict=True)),
        dict(zip(names_a, found[len(names_w) :], strict=True)),
    )


def _added(losses: Sequence[Tensor]) -> Tensor:
    first, *others = losses
    for loss in others:
        first = first + loss
    return first


def penalty_gradient(learner: Learner) -> dict[str, Tensor] | None:
    """Return the gradient of the learner's penalty on its architecture, if it has one."""
    leaves = variables(learner.architecture)
    with torch.enable_grad():
        value = learner.penalty(leaves) if leaves else None
    if value is None:
        return None
    if not isinstance(value, Tensor) or value.dim() or not value.requires_grad:
        raise TypeError("a penalty must be a scalar tensor that depends on the architecture")
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return filled(dict(zip(leaves, found, strict=True)), leaves)
