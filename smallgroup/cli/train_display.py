"""What is seen of a training."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from smallgroup.cli.display import Display, numbers
from smallgroup.networks import multiply_adds, parameters
from smallgroup.phases.evaluation import TrainingJob
from smallgroup.runner import Job

TITLES = {
    "loss": "loss",
    "auxiliary_loss": "auxiliary loss",
    "train_error": "training error %",
    "test_error": "test error %",
    "lr": "rate",
    "drop_path": "drop path",
}


class TrainingDisplay(Display):
    """Tells a training."""

    def introduce(self, job: Job) -> tuple[list[str], int, int]:
        """Data, network and steps."""
        assert isinstance(job, TrainingJob)
        self._began: tuple[int, float] | None = None
        dataset, network = job.data.dataset, job.network
        notes = "".join(f"; {note}" for note in dataset.notes)
        tests = 0 if dataset.test is None else len(dataset.test)
        cost = multiply_adds(network, dataset.size, dataset.channels)
        lines = [
            f"data: {dataset.name}, {len(dataset.train):,} training and {tests:,} test images{notes}",
            f"network: {parameters(network):,} parameters, {cost:,} multiply-adds",
            f"steps: {job.steps:,} in {job.config.epochs} epochs",
        ]
        self._total = job.steps
        return lines, job.steps, job.steps_per_epoch

    def time_left(self, step: int, seconds: float) -> float | None:
        """Every step takes as long as the others."""
        if self._began is None:
            self._began = (step, seconds)  # the first step is slower than others and not counted
            return None
        first, since = self._began
        return (seconds - since) / (step - first) * (self._total - step)

    def lines(self, row: Mapping[str, Any]) -> list[str]:
        """An epoch in a line."""
        return [numbers(row, TITLES)]

    def picture(self) -> RenderableType:
        """The same on a terminal."""
        return Text(numbers(self.rows[0], TITLES))
