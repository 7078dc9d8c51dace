"""What is seen of a training."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from smallgroup import kernels
from smallgroup.display.display import Display, numbers
from smallgroup.phases.training import GroupJob, MutualJob
from smallgroup.phases.training.course import TrainingCourse
from smallgroup.runner import Job
from smallgroup.runtime.device import describe_device
from smallgroup.spaces.count import multiply_adds, parameters

TITLES = {
    "loss": "loss",
    "auxiliary_loss": "auxiliary loss",
    "divergence": "divergence",
    "v_loss": "V's loss",
    "taught_loss": "loss on peers' labels",
    "lambda": "lambda",
    "train_error": "training error %",
    "validation_error": "validation error %",
    "test_error": "test error %",
    "lr": "rate",
    "drop_path": "drop path",
}


class TrainingDisplay(Display):
    """Tells a training, of one network or of several together."""

    def introduce(self, job: Job) -> tuple[list[str], int, int]:
        """Return the first lines of a training: data, networks and steps."""
        assert isinstance(job, TrainingCourse)
        self._began: tuple[int, float] | None = None
        dataset = job.data.dataset
        notes = "".join(f"; {note}" for note in job.data.notes)
        tests = 0 if job.data.tested is None else len(job.data.tested[1])
        kind = "test" if job.data.held_out is None else "held-out"
        lines = []
        if isinstance(job, MutualJob):
            lines.append(f"{self.title}: {len(job.trainees)} learners, weight {job.peers.weight:g}")
        if isinstance(job, GroupJob):
            lines += [f"{self.title or 'group'}: {line}" for line in _about_group(job)]
        lines.append(f"data: {dataset.name}, {len(job.data.trained):,} training and {tests:,} {kind} images{notes}")
        if dataset.about:
            lines.append(f"images: {dataset.about}")
        for k, trainee in enumerate(job.trainees):
            name = "network" if len(job.trainees) == 1 else f"learner {k}"
            cost = multiply_adds(trainee.network, dataset.size, dataset.channels)
            lines.append(
                f"{name}: {parameters(trainee.network):,} parameters, {cost:,} multiply-adds, "
                f"{job.config.network.channels} channels in the first cells"
            )
        lines.append(f"steps: {job.steps:,} in {job.config.epochs} epochs")
        mixed = job.config.precision != "float32"
        lines.append(f"device: {describe_device(job.trainees[0].device)}")
        lines.append(f"kernels: {kernels.in_words('plain' if mixed else kernels.current())}")
        self._total = job.steps
        return lines, job.steps, job.steps_per_epoch

    def time_left(self, step: int, seconds: float) -> float | None:
        """Return the seconds left; every step takes as long as the others."""
        if self._began is None:
            self._began = (step, seconds)  # the first step is slower than others and not counted
            return None
        first, since = self._began
        return (seconds - since) / (step - first) * (self._total - step)

    def lines(self, row: Mapping[str, Any]) -> list[str]:
        """Return one line for an epoch of a network."""
        whose = f"learner {row['learner']}: " if "learner" in row else ""
        return [whose + numbers(row, TITLES)]

    def summary(self, row: Mapping[str, Any]) -> str:
        """Return the same line, which is short."""
        return self.lines(row)[0]

    def picture(self) -> RenderableType:
        """Return the same lines for a live terminal."""
        return Group(*(Text(line) for row in self.rows for line in self.lines(row)))


def _about_group(job: GroupJob) -> list[str]:
    """Return lines on who learns from whom, and on what."""
    own, unlabeled = job.own, job.data.unlabeled
    networks = f"{own.learners} network{'s' * (own.learners != 1)}"
    if not own.teaching.active:
        lines = [f"{networks}, human labels alone"]
    else:
        whose = {"peers": "labels of peers", "own": "own labels (self-taught)", "uniform": "uniform labels"}[
            own.targets
        ]
        images = "the labeled images" if unlabeled is None else f"{len(unlabeled.indices):,} unlabeled images"
        lines = [f"{networks}, lambda {own.lam:g}, {whose} on {images}"]
    if job.data.hidden is not None:
        lines.append(f"labels of {len(job.data.hidden):,} training images are not used (data.unlabeled is split)")
    if any(trainee.has_left_out_head for trainee in job.taught):
        lines.append("the auxiliary head is off: in a group, learners learn from one output per network")
    return lines
