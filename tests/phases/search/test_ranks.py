"""Searches whose learners are spread over two real processes: what they save and write is that of one process."""

from pathlib import Path

import pytest

from tests.phases.search.ranks_worker import RANKS, SEARCHES
from tests.tools.ranks import launch


@pytest.mark.slow
def test_a_search_on_ranks_saves_and_writes_what_one_process_does(tmp_path: Path) -> None:
    """Two checkpoints, one of them in the middle of an epoch, all rows, and a search that is resumed."""
    first, *others = launch("tests.phases.search.ranks_worker", RANKS, tmp_path)
    alone = {name: first[f"{name}, alone"] for name in SEARCHES}
    assert len({digest for found in alone.values() for digest in found}) == 9  # no two of them are alike
    for found in (first, *others):
        assert {name: found[name] for name in SEARCHES} == alone
        assert found["resumed"] == alone["three methods"][1:2]
