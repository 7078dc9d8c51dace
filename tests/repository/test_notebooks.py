"""The notebooks run from top to bottom, and are kept without outputs."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def read(file: Path) -> Any:
    return nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]


def shown(cells: list[Any]) -> set[str]:
    """The kinds of content that a notebook shows."""
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return {kind for output in outputs for kind in output.get("data", {})}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_not_kept(file: Path) -> None:
    notebook = read(file)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type != "code" or (cell.outputs == [] and cell.execution_count is None)


# The kernel and its client have deprecations of their own, which are not ours.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_plots(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = read(file)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "image/png" in shown(notebook.cells)
    if file.stem == "first-search":
        assert "text/html" in shown(notebook.cells)
        assert (tmp_path / "runs" / "first" / "report.html").exists()


def test_there_are_two() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["first-search", "own-models"]
