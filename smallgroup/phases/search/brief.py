"""What a search is going to do, in a few lines, before it does it."""

from collections.abc import Sequence
from itertools import groupby

from smallgroup import kernels
from smallgroup.phases.search.config import ANSWERS, in_words
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.memory import expected_memory
from smallgroup.phases.search.schedule import Course, Stretch
from smallgroup.runtime.device import describe_device, free_memory


def brief(job: SearchJob) -> list[str]:
    """Return the first lines of a search: data, learners, steps and memory."""
    where = f"device: {describe_device(job.device)}"
    return [_data(job), *_images(job), *_learners(job), *_steps(job), where, _kernels(job), *_memory(job)]


def _data(job: SearchJob) -> str:
    data, splits = job.data, job.data.splits
    sizes = f"{len(splits.train):,} training, {len(splits.validation):,} validation"
    if job.group.setting.teaching.active:
        sizes += f" and {len(data.unlabeled_indices):,} unlabeled"
    notes = "".join(f"; {note}" for note in job.notes)
    pixels = f"{data.dataset.size}x{data.dataset.size} pixels"
    return f"data: {data.dataset.name}, {len(data.dataset.classes)} classes, {pixels}: {sizes} images{notes}"


def _images(job: SearchJob) -> list[str]:
    about = job.data.dataset.about
    return [f"images: {about}"] if about else []


def _learners(job: SearchJob) -> list[str]:
    return [f"learner {k}: {searcher.summary}" for k, searcher in enumerate(job.searchers)]


def _steps(job: SearchJob) -> list[str]:
    steps = f"steps: {job.course.steps:,} in {job.config.epochs} epochs: {_parts(job.course)}"
    words = in_words(job.config.hypergradient, taught=job.group.setting.teaching.active)
    answer = f"answer: {job.config.answer}: {ANSWERS[job.config.answer]}"
    return [steps, f"architecture gradient: {words}", *_travels(job), answer]


def _parts(course: Course) -> str:
    """Return which tensors are trained when; equal stages are described once."""
    moved = {"labelers": "V alone", "all": "the architecture too"}
    moved["weights"] = "V and W" if course.teaches else "W alone"

    def told(stretches: Sequence[Stretch]) -> str:
        runs = groupby(stretches, key=lambda stretch: stretch.kind)
        counts = [(kind, sum(one.end - one.begin for one in run)) for kind, run in runs]
        return ", then ".join(f"{count:,} of {moved[kind]}" for kind, count in counts)

    stages = [told(list(run)) for _, run in groupby(course.stretches, key=lambda stretch: stretch.stages)]
    alike = len(stages) > 1 and len(set(stages)) == 1
    return f"{len(stages)} times {stages[0]}" if alike else told(course.stretches)


def _travels(job: SearchJob) -> list[str]:
    """Return how far logits can move, by learner if learners differ."""
    found: dict[str, list[int]] = {}
    for k, searcher in enumerate(job.searchers):
        own, schedule = searcher.relaxed.method.optimizer.lr, searcher.schedule
        rate, travel = schedule.architecture_rate(own), schedule.travel(own)
        stage = " in a stage" if schedule.number_of_stages > 1 else ""
        text = f"Adam at {rate:.3g} can move a logit of the architecture by {travel:.3g}{stage} (7.5 in the paper)"
        found.setdefault(text, []).append(k)
    if len(found) == 1:
        return [f"travel: {text}" for text in found]
    return [f"travel of learner {', '.join(map(str, whose))}: {text}" for text, whose in found.items()]


def _kernels(job: SearchJob) -> str:
    second = "; second derivatives layer by layer" if job.config.hypergradient == "exact" else ""
    return f"kernels: {kernels.in_words(kernels.current())}{second}"


def _memory(job: SearchJob) -> list[str]:
    expected = expected_memory(job)
    available = free_memory(job.device)
    first = " in the first stage" if any(one.number_of_stages > 1 for one in job.course.schedules) else ""
    if available is None:
        return [f"memory: about {expected / 1e9:.1f} GB{first}"]
    lines = [f"memory: about {expected / 1e9:.1f} GB{first}, and {available / 1e9:.1f} GB are free"]
    if expected > available:
        lines.append("warning: that may not fit; a smaller search.batch_size, space.channels or space.cells needs less")
    return lines
