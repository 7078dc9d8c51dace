"""Draw the answer of primary.yaml: both comparisons of both endpoints, as mean paired differences beside the margins.

python results/teaching-2/figure.py results/teaching-2/primary/table.json --out docs/figures/when-teaching-helps.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

PANELS = (
    ("percentile at cost, points", 5.0, (-13, 13)),
    ("correlation with true effects", 0.1, (-0.26, 0.26)),
)
"""Title, margin and range of each endpoint, in the order of the claims."""
NAMES = {"self-taught pair": "group − self-taught", "independent pair": "group − independent"}


def draw(verdicts: list[dict[str, Any]]) -> Figure:
    """Return a panel for each endpoint."""
    figure = Figure(figsize=(8.5, 2.6), layout="constrained")
    for axes, verdict, (title, margin, limits) in zip(figure.subplots(1, 2), verdicts, PANELS, strict=True):
        axes.axvspan(-margin, margin, color="0.92", label="too small to matter")
        axes.axvline(0, color="0.4", linewidth=0.8)
        compared = verdict["comparisons"]
        for height, (_, each) in enumerate(reversed(compared.items())):
            same = each["equivalence"]
            low, high = same["interval"]
            axes.plot([low, high], [height, height], color="C0", linewidth=2, solid_capstyle="butt")
            axes.plot([same["difference"]], [height], "o", color="C0")
            axes.annotate(each["side"], (same["difference"], height + 0.18), ha="center", fontsize=9)
        axes.set_yticks(range(len(compared)), [NAMES[name] for name in reversed(compared)])
        axes.set(xlim=limits, ylim=(-0.6, len(compared) - 0.3), title=title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Mean paired difference over 64 seeds, 90 % interval; gray: the margin of equivalence", fontsize=10)
    return figure


def main() -> None:
    """Read a table and write the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    # The same table gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "answer", "svg.fonttype": "path"}):
        draw(json.loads(given.table.read_text())["claims"]).savefig(given.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
