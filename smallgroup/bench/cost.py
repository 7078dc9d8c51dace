"""The cost model of docs/scaling.md: what a step of a group takes, by its sizes alone."""

from dataclasses import dataclass
from typing import Any

from smallgroup.group.ranks import FORM

PASSES = {
    ("first-order", True): (5, 4),
    ("finite-difference", True): (12, 11),
    ("exact", True): (9, 8),
    ("first-order", False): (2, 2),
    ("finite-difference", False): (4, 4),
    ("exact", False): (3, 3),
}
"""Forward and backward passes per learner and step; whether learners teach one another."""
TABLES = {"first-order": 1, "finite-difference": 2, "exact": 2}
"""What a learner shows the others in a step: labels, and sensitivities where the gradient needs them."""
HEAD = 3
"""Integers that a rank says at every meeting, before it describes its tables."""
WEIGHT_COPIES = 10
"""Of V and W together, in sizes of W: values, momentum, the state before the step, gradients, probes."""
ACTIVATIONS = {"first-order": 1.5, "finite-difference": 1.5, "exact": 4.5}
"""The peak of a pass, in units of what it keeps for its backward pass."""
FORWARD = 1 / 3
"""The share of a forward pass in a pass with its way back."""


@dataclass(frozen=True, kw_only=True)
class GroupSizes:
    """The sizes that the cost of a step depends on."""

    learners: int
    ranks: int = 1
    hypergradient: str = "finite-difference"
    batch: int = 64
    """Images of each of the three batches."""
    classes: int = 10
    weights: int = 0
    """Number of weights in W of one learner."""
    kept: int = 0
    """Bytes that a pass keeps for its backward pass, per image."""


@dataclass(frozen=True)
class GroupCost:
    """The cost of a step on the busiest rank."""

    learners: int
    """Learners that this rank computes."""
    forward: int
    backward: int
    passes: float
    """Forward and backward passes together that take as long."""
    received: int
    """Bytes from other ranks, tables and what describes them."""
    table_bytes: int
    """The part of `received` that is tables."""
    memory: int
    """Bytes of weights and activations at the peak; a rank makes all learners, and moves its own."""

    def seconds(self, of_pass: float) -> float:
        """Return how long a step takes, if a pass of a batch with its backward pass takes `of_pass`."""
        return self.passes * of_pass

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `--json` prints."""
        return dict(vars(self))


def cost_of(sizes: GroupSizes) -> GroupCost:
    """Return the cost of a step on the rank with the most learners."""
    own = -(-sizes.learners // sizes.ranks)
    forward, backward = PASSES[sizes.hypergradient, sizes.learners > 1]
    # The rank that has fewest receives most; with one learner less than the busiest, if they cannot be dealt evenly.
    fewest = sizes.learners // sizes.ranks
    table = 4 * sizes.batch * sizes.classes
    if sizes.learners % sizes.ranks == 0:  # then tables come with the meetings, which are whole words
        table = -(-table // 8) * 8
    tables = TABLES[sizes.hypergradient] * (sizes.learners - fewest) * table if sizes.ranks > 1 else 0
    meetings = TABLES[sizes.hypergradient] + 1
    heads = 8 * (sizes.ranks - 1) * meetings * (HEAD + FORM * own)
    activations = int(ACTIVATIONS[sizes.hypergradient] * sizes.kept * sizes.batch)
    # Learners of other ranks are there with the values of V and W alone.
    copies = WEIGHT_COPIES * own + 2 * (sizes.learners - own)
    return GroupCost(
        learners=own,
        forward=own * forward,
        backward=own * backward,
        passes=own * (FORWARD * forward + (1 - FORWARD) * backward),
        received=tables + heads,
        table_bytes=tables,
        memory=4 * sizes.weights * copies + activations,
    )
