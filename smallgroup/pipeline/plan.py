"""What a run was asked for beside its config, in `plan.json`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from smallgroup.baseline_names import Baseline
from smallgroup.controls import CONTROLS
from smallgroup.places import PLAN
from smallgroup.runtime.budget import Clock
from smallgroup.runtime.files import read_regular


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run beyond its config."""

    seconds: float | None
    """Seconds of the time budget; None: there is no budget."""
    clock: Clock
    baselines: tuple[Baseline, ...]
    controls: bool = False
    """Whether the controls of a group's training are trained too."""
    search_seconds: float | None = None
    """What the search was expected to take when its length was chosen."""
    measuring_seconds: float = 0.0
    """What choosing it took of the budget."""
    training: dict[str, Any] | None = None
    """The section of the config for the network found, once a budget has decided its size."""
    latencies: dict[str, float] | None = None
    """Latencies of networks that were measured when the size was chosen."""

    @staticmethod
    def read(folder: Path) -> "RunPlan | None":
        """Read the plan of a run that was started before; None: there is none."""
        try:
            content = read_regular(folder / PLAN, 100_000)
        except FileNotFoundError:
            return None
        try:
            return _PLAN.validate_json(content)
        except ValueError:
            raise ValueError(f"{folder / PLAN} must be the plan of a run, but it is not") from None

    def dumps(self) -> str:
        """Return the text of `plan.json`."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def trainings(self) -> int:
        """The found network, the baselines and the controls; two of these take as long as the group, one less."""
        return 1 + len(self.baselines) + (len(CONTROLS) if self.controls else 0)


_PLAN = TypeAdapter(RunPlan)
