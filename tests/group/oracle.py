"""Independent derivations of the architecture gradient: the unrolled problem, written as the paper writes it.

Nothing here uses the library's objectives or products. The architecture enters the unrolled problem in four
roles: in stage 1 ("cross"), in the network that labels ("label"), in stage 2 ("own") and in the validation
("direct"). Giving each role its own copy and differentiating in that copy gives one term at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from smallgroup.group import Learner

Tensors = dict[str, Tensor]
ROLE = {"cross": "v", "label": "label", "own": "w", "direct": "val"}
Step = Callable[[int, Tensors, Tensors], Tensors]


def plain(rate: float) -> Step:
    return lambda _, weights, gradient: {n: p - rate * gradient[n] for n, p in weights.items()}


def _gradient(loss: Tensor, weights: Tensors) -> Tensors:
    found = torch.autograd.grad(loss, list(weights.values()), create_graph=True, allow_unused=True)
    return {n: torch.zeros_like(t) if g is None else g for (n, t), g in zip(weights.items(), found, strict=True)}


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


class Written(NamedTuple):
    """A task in formulas: the loss on labels, the table handed over, a pupil's loss on it, a table of no knowledge."""

    loss: Callable[[Tensor, Any], Tensor]
    hand: Callable[[Tensor, Any], Tensor]
    pupil: Callable[[Tensor, Tensor], Tensor]
    nothing: Callable[[Tensor, Any], Tensor]
    together: bool = False
    """Whether a pupil's loss is that on the sum of its peers' tables, not the sum of its losses on each."""


CLASSIFICATION = Written(
    F.cross_entropy,
    lambda outputs, _: outputs.softmax(dim=1),
    _cross_entropy,
    lambda outputs, _: torch.full_like(outputs, 1 / outputs.shape[1]),
)


def unrolled(
    learners: Sequence[Learner],
    roles: Sequence[dict[str, Tensors]],
    batches: Any,
    *,
    lam: float,
    step_v: Step,
    step_w: Step,
    labels_from: str | Sequence[Callable[[Tensor], Tensor]] = "v",
    targets: str = "peers",
    human_labels: bool = True,
    written: Written = CLASSIFICATION,
) -> list[Tensor]:
    """L(W'_j, A_j, D_val) of every learner as differentiable functions; roles[k][role] is A_k in that role."""
    (x, y), u, (x_v, y_v) = batches
    count = len(learners)
    everyone = range(count)

    def leaves(tensors: Tensors) -> Tensors:
        return {n: t.detach().requires_grad_() for n, t in tensors.items()}

    def outputs(k: int, weights: Tensors, role: str, inputs: Any, phase: str) -> Tensor:
        return learners[k].outputs(weights, roles[k][role], inputs, phase)  # type: ignore[arg-type]

    def hand(k: int, weights: Tensors, phase: str = "label") -> Tensor:
        return written.hand(outputs(k, weights, "label", u, phase), u)

    w = [leaves(learner.w) for learner in learners]
    p: list[Tensor] = []
    if labels_from == "v" and targets != "uniform":
        for k in everyone:
            v = leaves(learners[k].v or {})
            v_next = step_v(k, v, _gradient(written.loss(outputs(k, v, "v", x, "v"), y), v))
            p.append(hand(k, v_next))
    elif labels_from == "w":
        p = [hand(k, w[k]).detach() for k in everyone]
    elif labels_from == "w-joint":
        p = [hand(k, w[k], "w_unlabeled") for k in everyone]
    elif not isinstance(labels_from, str):
        p = [written.hand(label(u), u).detach() for label in labels_from]

    # O_k; in the joint form all O are one objective of all W.
    objective = []
    for k in everyone:
        weight = lam if human_labels else 1.0
        q = outputs(k, w[k], "w", u, "w_unlabeled")
        value = written.loss(outputs(k, w[k], "w", x, "w"), y) if human_labels else q.new_zeros(())
        if written.together and targets == "peers" and count > 1:
            value = value + weight * written.pupil(q, torch.stack([p[j] for j in everyone if j != k]).sum(dim=0))
            objective.append(value)
            continue
        for j in everyone:
            if j != k and targets == "peers":
                value = value + weight * written.pupil(q, p[j])
            elif j != k and targets == "own":
                value = value + weight * written.pupil(q, p[k])
            elif j != k:
                value = value + weight * written.pupil(q, written.nothing(q, u))
        objective.append(value)
    result = []
    for k in everyone:
        value = sum(objective[1:], objective[0]) if labels_from == "w-joint" else objective[k]
        w_next = step_w(k, w[k], _gradient(value, w[k]))
        result.append(written.loss(outputs(k, w_next, "val", x_v, "val"), y_v))
    return result


def _split(learners: Sequence[Learner]) -> list[dict[str, Tensors]]:
    return [
        {
            role: {n: a.detach().clone().requires_grad_() for n, a in learner.architecture.items()}
            for role in ROLE.values()
        }
        for learner in learners
    ]


def term_gradients(learners: Sequence[Learner], batches: Any, **options: object) -> list[dict[str, Tensors]]:
    """Every term by reverse-mode differentiation through the unrolled steps, in its own copy of A.

    In the joint form a learner's labels and predictions are one: there "own" is all that A_k does to its own
    validation loss through W'_k, and "label" all that it does to those of its peers.
    """
    roles = _split(learners)
    losses = unrolled(learners, roles, batches, **options)  # type: ignore[arg-type]
    everything = sum(losses[1:], losses[0])
    result = []
    for k in range(len(learners)):
        terms = {term: _derivative(everything, roles[k][role]) for term, role in ROLE.items()}
        if options.get("labels_from") == "w-joint":
            others = everything - losses[k]
            for term, loss in (("own", losses[k]), ("label", others)):
                pupil, labeler = _derivative(loss, roles[k]["w"]), _derivative(loss, roles[k]["label"])
                terms[term] = {name: pupil[name] + labeler[name] for name in pupil}
        result.append(terms)
    return result


def _derivative(loss: Tensor, tensors: Tensors) -> Tensors:
    found = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True, retain_graph=True)
    return {n: torch.zeros_like(t) if g is None else g for (n, t), g in zip(tensors.items(), found, strict=True)}


def central_differences(
    learners: Sequence[Learner], batches: Any, terms: Sequence[str], *, width: float = 1e-5, **options: object
) -> list[Tensors]:
    """The same by nothing but values of the unrolled objective: A moved entry by entry, in the roles of `terms`."""
    result: list[Tensors] = []
    for k, learner in enumerate(learners):
        gradients: Tensors = {}
        for name, tensor in learner.architecture.items():
            gradient = torch.zeros_like(tensor)
            for i in range(tensor.numel()):
                values = []
                for sign in (1, -1):
                    roles = _split(learners)
                    for term in terms:
                        roles[k][ROLE[term]][name].detach().view(-1)[i] += sign * width
                    losses = unrolled(learners, roles, batches, **options)  # type: ignore[arg-type]
                    values.append(torch.stack(losses).sum().detach())
                gradient.view(-1)[i] = (values[0] - values[1]) / (2 * width)
            gradients[name] = gradient
        result.append(gradients)
    return result


def relative(found: Tensors, expected: Tensors) -> float:
    """The error in units of the expected term's own norm, all tensors together."""
    gap = torch.cat([(found[n].double() - expected[n].double()).flatten() for n in expected])
    size = torch.cat([expected[n].double().flatten() for n in expected]).norm()
    return float(gap.norm() / size)
