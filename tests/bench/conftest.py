import json
from collections.abc import Mapping
from typing import Any

import pytest

from smallgroup.bench import one_row
from smallgroup.bench.child import Told


@pytest.fixture
def measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are measured in this process: one of their own takes longer to start than tiny rows take to measure."""

    def here(_module: str, asked: Mapping[str, Any], _what: str, told: Told | None = None) -> Mapping[str, Any]:
        said: list[Mapping[str, Any]] = []
        with monkeypatch.context() as changed:
            changed.setattr(one_row, "say", lambda document: said.append(json.loads(json.dumps(document))))
            changed.setattr(one_row, "keep_memory", lambda: None)
            one_row.main(json.dumps(asked))
        *turns, last = said
        for turn in turns:
            if told is not None:
                told(turn)
        return last

    monkeypatch.setattr(one_row, "in_a_process", here)
