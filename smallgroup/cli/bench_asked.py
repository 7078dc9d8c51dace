"""What all commands of `smallgroup bench` are told, checked before torch is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smallgroup.bench.paths import check_path
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.device_names import AUTO, check_device_name, check_possible

QUICK_ROUNDS = 2


@dataclass(frozen=True)
class BenchRequest:
    """A request to measure: what, and how to show it."""

    path: str
    rounds: int | None
    threads: int | None
    device: str | None = None
    quick: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)
        check_possible(check_device_name(self.device or AUTO))
        check_counts(**{name: given for name in ("rounds", "threads") if (given := getattr(self, name)) is not None})

    def sized(self, given: Mapping[str, Any], quick: Mapping[str, int]) -> dict[str, Any]:
        """Return the sizes given, over those of --quick if it was given."""
        return {**(quick if self.quick else {}), **given}

    def rounds_or(self, usual: int) -> int:
        """Return the rounds given, or else those of --quick or the usual ones."""
        return self.rounds if self.rounds is not None else QUICK_ROUNDS if self.quick else usual
