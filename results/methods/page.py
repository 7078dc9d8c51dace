"""Write the table of README.md from table.json and steps.json.

python results/methods/page.py
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
START, END = "<!-- table -->\n", "<!-- end of table -->\n"
MEASURES = ("percentile", "percentile_at_cost", "skips")
ARMS = ("alone", "independent", "group")


def lines() -> list[str]:
    """Return the table: a row per method and arm."""
    rows = {row["name"]: row for row in json.loads((FOLDER / "table.json").read_text())["rows"]}
    steps: dict[str, Any] = json.loads((FOLDER / "steps.json").read_text())["methods"]
    found = [
        "| method | arm | percentile | percentile at cost | skips | step, DARTS alone = 1 |",
        "|---|---|---|---|---|---|",
    ]
    for method in steps:
        for arm in ARMS:
            measures = rows[f"method = {method}: {arm}"]["measures"]
            cells = [f"{measures[name]['mean']:.1f} ± {measures[name]['std']:.1f}" for name in MEASURES]
            step = steps[method][arm]
            cells.append(f"{step['ratio']:.2f}" + ("" if step["moves"] else " *"))
            found.append(f"| {method if arm == ARMS[0] else ''} | {arm} | {' | '.join(cells)} |")
    return found


def main() -> None:
    """Put the table in its place."""
    page = FOLDER / "README.md"
    before, rest = page.read_text().split(START)
    page.write_text(before + START + "\n" + "\n".join(lines()) + "\n\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
