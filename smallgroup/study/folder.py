"""The folder in which studies are kept: the names in it, and which folders are refused before torch is loaded."""

from pathlib import Path

from smallgroup.places import check_empty

RUNS = "runs"
"""The folder of all runs, beside those of studies."""
FAILED = "failed.json"
"""In the folder of a run: why it failed."""
WORKERS = "workers"
"""In the folder of a study: what its workers are to do, and their logs."""


def check_for_studies(root: Path) -> None:
    """Refuse a folder that holds anything else than studies; nothing is written to it."""
    ours = (f"{RUNS}/*/search", f"{RUNS}/*/train", f"{RUNS}/*/{FAILED}", f"*/{WORKERS}")
    if not any(next(root.glob(pattern), None) for pattern in ours):
        check_empty(root, "a study")
