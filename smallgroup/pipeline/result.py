"""What a whole run has come to, and how the network found compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smallgroup.baseline_names import BASELINES, Baseline
from smallgroup.controls import TrainedArm
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.shown import Scalar, ShownResult
from smallgroup.phases.training import TrainResult
from smallgroup.phases.training.place import TRAINING
from smallgroup.report import notebook
from smallgroup.statistics.same_images import ImageComparison


@dataclass(frozen=True)
class BaselineComparison:
    """The found network against a baseline, on the same test images, with one training of each."""

    baseline: Baseline
    comparison: ImageComparison | None
    """None where there are no test images, or the trainings differ in length."""

    @property
    def sentence(self) -> str:
        """Return the verdict as a sentence."""
        name = BASELINES[self.baseline]
        if self.comparison is None:
            return f"The network found and {name} cannot be compared."
        found, (low, high) = self.comparison, self.comparison.interval
        words = {"better": "is better than", "worse": "is worse than", "not told apart": "is not told apart from"}
        side = "lower" if found.difference <= 0 else "higher"
        return (
            f"The network found {words[found.verdict]} {name}: its test error is {abs(found.difference):.2f} points "
            f"{side} (95 % interval {low:+.2f} to {high:+.2f}; {found.images:,} test images, one seed)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as the file has it."""
        found = self.comparison
        verdict = None if found is None else found.verdict
        return {
            "baseline": self.baseline,
            "verdict": verdict,
            "sentence": self.sentence,
            **({} if found is None else asdict(found)),
        }


@dataclass(frozen=True)
class RunResult(ShownResult):
    """The result of a whole run."""

    search: SearchResult
    training: TrainResult
    baselines: Mapping[Baseline, TrainResult]
    comparisons: Sequence[BaselineComparison]
    controls: Sequence[TrainedArm] = ()
    """For networks trained as a group, the group and then each of its controls."""
    resnet_fills_limits: bool = False
    """Whether the ResNet is the largest within limits in KB, and not one of the same multiply-adds."""

    @property
    def history(self) -> tuple[dict[str, Scalar], ...]:
        """The metrics of all parts; `part` is `search`, `training` or the name of a baseline."""
        parts: list[tuple[str, ShownResult]] = [
            ("search", self.search),
            (TRAINING, self.training),
            *self.baselines.items(),
        ]
        return tuple({"part": name, **row} for name, result in parts for row in result.history)

    def plot(self) -> Any:  # noqa: ANN401 -- matplotlib is imported when it is needed
        """Return a figure of the training curves of all networks, and of their test errors and multiply-adds."""
        return notebook.compare_trainings([("network found", self.training), *self.baselines.items()])

    def _repr_html_(self) -> str:
        return notebook.html_of_run([each.sentence for each in self.comparisons], self.training, self.search)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `run --json` prints."""
        return {
            "search": self.search.to_dict(),
            "training": self.training.to_dict(),
            "baselines": {name: result.to_dict() for name, result in self.baselines.items()},
            "verdict": [each.to_dict() for each in self.comparisons],
            **({"controls": [arm.to_dict() for arm in self.controls[1:]]} if self.controls else {}),
        }
