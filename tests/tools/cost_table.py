"""`python -m tests.tools.cost_table`: the table of docs/scaling.md, from the cost model and counted supernets."""

from typing import Any

from smallgroup.bench.cost import GroupSizes, cost_of

NETWORKS: dict[str, dict[str, Any]] = {
    "nas-bench-201, darts, 32x32": {"weights": 1_692_826, "kept": 10_843_544, "batch": 50, "classes": 10},
    "darts, darts, 32x32": {"weights": 1_930_618, "kept": 31_571_200, "batch": 50, "classes": 10},
    "darts, pc-darts, ImageNet": {"weights": 956_512, "kept": 21_498_016, "batch": 50, "classes": 1000},
    "darts, pc-darts, ImageNet, batch 1024": {
        "weights": 956_512,
        "kept": 21_498_016,
        "batch": 1024,
        "classes": 1000,
    },
}
"""Supernets of the recipe `paper`, their weights, and what a pass keeps per image, counted by
`smallgroup.phases.search.memory.activations`."""
SPREADS = ((2, 1), (2, 2), (64, 1), (64, 8), (64, 64))
"""Learners and ranks."""


def table() -> list[str]:
    """Return the table of docs/scaling.md, by finite differences."""
    lines = [
        "| supernet | learners | ranks | passes per rank | received per rank and step | memory per rank |",
        "|---|---|---|---|---|---|",
    ]
    for name, about in NETWORKS.items():
        for learners, ranks in SPREADS:
            found = cost_of(GroupSizes(learners=learners, ranks=ranks, **about))
            received, memory = f"{found.received / 1e6:,.2f} MB", f"{found.memory / 1e9:,.1f} GB"
            passes = f"{found.forward:,}F + {found.backward:,}B"
            lines.append(f"| {name} | {learners} | {ranks} | {passes} | {received} | {memory} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
