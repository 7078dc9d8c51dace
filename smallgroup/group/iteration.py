"""One iteration of small-group learning: the paper's Algorithm 1, stage by stage, on one page.

Symbols and equation numbers are the paper's. x, y: labeled batch; u: unlabeled batch; x_v, y_v: validation
batch. For learner k: A_k architecture, V_k and W_k weights, p_k what it hands to its peers (in the paper soft labels),
s_k its sensitivity to what it is handed. Of other learners a learner only ever sees p and s (in the joint form, where
labels are predictions, outputs and changes of p too), and the activations of one learner live at a time. L, h and l
are the losses and tables of the task: in the paper cross-entropy, softmax and cross-entropy. The objectives are those
of `problem`, what the stages leave behind (v, p, w, s, terms) is in `found`, and `checks` decides what can be used.
Learners may be spread over processes: each computes those that are `mine`, and they meet over labels and sensitivities.
"""

from smallgroup.group.hypergradients import MixedProduct, negated
from smallgroup.group.objectives import gradients
from smallgroup.group.optimizers import Move
from smallgroup.group.report import StepReport
from smallgroup.group.tensors import filled
from smallgroup.group.workings import Workings


def iterate(work: Workings) -> StepReport:
    """Compute lines 1 to 3 of Algorithm 1; the architecture step itself is left to the caller."""
    if work.teaching.trains_v:
        with work.found.timed(1):
            stage_1(work)
    with work.found.timed(2):
        stage_2(work)
    if work.problem.validates:
        with work.found.timed(3):
            stage_3(work)
    return work.report()


def first_stage_alone(work: Workings) -> StepReport:
    """Take stage 1 alone: labelers that learn before they teach."""
    with work.found.timed(1):
        stage_1(work)
    return work.report()


def third_stage_alone(work: Workings) -> StepReport:
    """Compute grad_A L(W_k, A_k, D_val) at the current W_k: the direct term without a look ahead."""
    with work.found.timed(3):
        for k in work.mine:
            w = work.problem.w(k)
            work.found.w[k] = Move(w, w, {})
            direct_and_own(work, k, None)
    return work.report()


def stage_1(work: Workings) -> None:
    """Compute V'_k = V_k - xi_V grad_V L(V_k, A_k, D_tr), Eq. (4): each learner on its own."""
    for k in work.mine:
        objective, v = work.problem.first(k), work.problem.v(k)
        work.problem.begin(k, "v", objective, v)
        found = gradients(objective, v, work.problem.a(k), of_weights=True)
        work.checks.note(k, 1, "v", found)
        work.found.v[k] = work.move_v(k, work.checks.usable(k, 1, [found.weights]))


def stage_2(work: Workings) -> None:
    """Compute p_k = h(f(V'_k, A_k, u)), then W'_k = W_k - xi_W grad_W O_k(W_k), Eq. (5).

    O_k(W) = L(W, A_k, D_tr) + lambda sum_{j != k} l(f(W, A_k, u), p_j).
    """
    if work.problem.labels:
        for k in work.mine:
            work.checks.keep_handed(k, *work.problem.hand_over(k))
        work.meet_over_labels()
    work.found.o = {k: work.problem.second(k) for k in work.mine}
    for k in work.mine:
        w, parts = work.problem.w(k), []
        for name, objective in work.found.o[k].items():
            work.problem.begin(k, name, objective, w)
            found = gradients(objective, w, work.problem.a(k), of_weights=True)
            work.checks.note(k, 2, name, found)
            work.problem.show(k, name, found)
            parts.append(found.weights)
        work.found.w[k] = work.move_w(k, work.checks.usable(k, 2, parts))


def stage_3(work: Workings) -> None:
    """Compute the gradient of sum_j L(W'_j, A_j, D_val) in A_k, Eq. (6): direct + own + cross + label."""
    for k in work.mine:
        direct_and_own(work, k, work.product)
    if work.product is not None and work.teaching.labels_move:
        work.meet_over_sensitivities()
        for k in work.mine:
            cross_and_label(work, k, work.product)


def direct_and_own(work: Workings, k: int, product: MixedProduct | None) -> None:
    """Compute Eq. (7): direct = grad_A L(W'_k, A_k, D_val), own = -xi_W d2O_k/(dA_k dW_k) g_k.

    g_k = grad_W' L(W'_k, A_k, D_val). The same product yields s_k = -xi_W d/de dl/dp(f(W_k + e g_k, A_k, u), p_j)
    for its teachers j: of cross-entropy xi_W d/de log q_k for all of them.
    """
    a, w = work.problem.a(k), work.found.w[k]
    second_order = product is not None and (bool(a) or work.teaching.labels_move)
    seen = second_order or work.problem.is_shown(k)
    found = gradients(work.problem.third(k), w.after, a, of_weights=seen, of_architecture=True)
    work.checks.note(k, 3, "val", found)
    work.problem.show(k, "val", found)
    work.checks.keep_direct(k, found)
    if product is None or not second_order:
        return
    xi_g = w.direction(found.weights)
    if work.checks.can_follow(k, "own", xi_g):
        change = product(list(work.found.o[k].values()), w.before, xi_g, a)
        if work.checks.keep(k, "own", negated(change)) and work.teaching.labels_move:
            work.checks.keep_sensitivity(k, change.tables)


def cross_and_label(work: Workings, k: int, product: MixedProduct) -> None:
    """Compute what A_k does to the validation losses of its pupils, all of it through the labels p_k.

    To first order those losses change with p_k by lambda mean_batch sum p_k S_k, S_k the sum of its pupils' s_j.
    With r_k the gradient of that in V'_k:

    cross = -xi_V d2L(V_k, A_k, D_tr)/(dA_k dV_k) r_k     A_k moves V'_k, Eqs. (9) to (11)
    label = grad_A lambda mean_batch sum p_k S_k          A_k is part of the network that labels
    """
    a, through_v, label_path = work.problem.a(k), work.teaching.trains_v, work.label_path
    if not a or not (through_v or label_path) or not work.checks.knows_pupils(k):
        return
    labeler = work.found.v[k].after if through_v else work.found.w[k].before
    found = gradients(work.problem.taught(k), labeler, a, of_weights=through_v, of_architecture=label_path)
    if label_path:
        work.checks.keep(k, "label", filled(found.architecture, a))
    if through_v:
        v = work.found.v[k]
        xi_r = v.direction(found.weights)
        if work.checks.can_follow(k, "cross", xi_r):
            work.checks.keep(k, "cross", negated(product([work.problem.first(k)], v.before, xi_r, a)))
