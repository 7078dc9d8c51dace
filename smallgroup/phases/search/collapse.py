"""Signs that a search collapses: cells of skip connections, and edges that are decided for good.

A cell of skip connections is a sign of collapse only if the search has decided for them. In a short search the first
operation of an edge may lead by a fraction of a percentage point, and the cell that is read off says nothing yet.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from smallgroup.spaces import Space

SKIPS = 0.5
"""A cell half of whose edges are skip connections: published cells have 0 to 3 of 8."""
DECIDED = 0.02
"""Mean lead of the first operation over the second, as a difference of shares, from which on an edge counts as decided.
Initial architectures have 0.0002; a search of 300 steps at a low architecture rate 0.015."""
ENTROPY = 0.1
"""Mean entropy of the edges, as a part of the largest possible, below which the choice can hardly change."""


def signs_of_collapse(
    space: Space,
    chosen: Mapping[str, Tensor],
    entropy: Mapping[str, Sequence[float]],
    margins: Mapping[str, Sequence[float]],
) -> dict[str, str]:
    """Return a sentence for each sign, with what the user can do about it.

    In a space with a reduction cell only the normal cell counts: skip connections in the other one tell nothing.

    Args:
        space: what was searched.
        chosen: by kind of cell, [edges, operations], 1 for what the derived genotype has.
        entropy: by kind, the entropy of each edge as a part of the largest possible.
        margins: by kind, the lead of each edge's first operation over its second, as a difference of shares.
    """
    found = {}
    first = next(iter(space.kinds))
    table, operations = chosen[first], space.kinds[first].operations
    counts = dict(zip(operations, table.sum(dim=0).tolist(), strict=True))
    edges, skips = sum(count for name, count in counts.items() if name != "none"), counts.get("skip_connect", 0)
    if edges and skips >= SKIPS * edges:
        are = f"{skips:.0f} of the {edges:.0f} edges of {_named(first)} are skip connections"
        of_skips = table[:, operations.index("skip_connect")].tolist()
        lead = sum(own * margin for own, margin in zip(of_skips, margins[first], strict=True)) / skips
        if lead >= DECIDED:
            found["skips"] = (
                f"{are}, as in a search that collapses; try --method fair-darts, a longer "
                "search.architecture_warmup or a smaller learning rate of the architecture, or take the "
                "cell of an earlier epoch from metrics.jsonl"
            )
        else:
            found["undecided"] = (
                f"{are}, but they lead by {100 * lead:.2g} percentage points only: the search is undecided, not "
                "collapsed; give the architecture more steps (search.epochs) or a larger search.architecture.lr"
            )
    for kind, values in entropy.items():
        mean = sum(values) / len(values)
        if mean < ENTROPY:
            found[f"entropy of {kind}"] = (
                f"the edges of {_named(kind)} have {100 * mean:.0f} % of the entropy they could have, so that their "
                "operations hardly change any more; for a choice that stays open longer lower search.architecture.lr "
                "(or travel), or raise search.architecture.weight_decay"
            )
    return found


def _named(kind: str) -> str:
    return "the cell" if kind == "cell" else f"the {kind} cell"
