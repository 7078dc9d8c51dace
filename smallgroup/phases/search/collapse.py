"""Signs that a search collapses: cells of skip connections, and edges that are decided for good."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from smallgroup.spaces import Space

SKIPS = 0.5
"""A cell half of whose edges are skip connections: published cells have 0 to 3 of 8."""
ENTROPY = 0.1
"""Mean entropy of the edges, as a part of the largest possible, below which the choice can hardly change."""


def signs_of_collapse(
    space: Space, chosen: Mapping[str, Tensor], entropy: Mapping[str, Sequence[float]]
) -> dict[str, str]:
    """By sign, a sentence with what one can do about it.

    Of a space with a reduction cell the normal cell counts: skip connections in the other tell nothing.
    """
    found = {}
    first = next(iter(space.kinds))
    table, operations = chosen[first], space.kinds[first].operations
    counts = dict(zip(operations, table.sum(dim=0).tolist(), strict=True))
    edges, skips = sum(count for name, count in counts.items() if name != "none"), counts.get("skip_connect", 0)
    if edges and skips >= SKIPS * edges:
        found["skips"] = (
            f"{skips:.0f} of the {edges:.0f} edges of {_named(first)} are skip connections, as in a search that "
            "collapses; try --method fair-darts, a longer search.architecture_warmup or a smaller learning rate of the "
            "architecture, or take the cell of an earlier epoch from metrics.jsonl"
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
