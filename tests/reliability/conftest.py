from pathlib import Path

import pytest

from smallgroup.cli import main
from tests.reliability.runs import SEARCH


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished search, not to be touched."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert main([*SEARCH, "--out", str(out)]) == 0
    return out
