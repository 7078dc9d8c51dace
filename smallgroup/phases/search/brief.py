"""What a search is going to do, in a few lines, before it does it."""

from smallgroup.phases.search.config import in_words
from smallgroup.phases.search.job import SearchJob
from smallgroup.phases.search.memory import expected_memory
from smallgroup.runtime.memory import available_memory


def brief(job: SearchJob) -> list[str]:
    """Data, learners, steps and memory."""
    return [_data(job), *_learners(job), *_steps(job), *_memory(job)]


def _data(job: SearchJob) -> str:
    data, splits = job.data, job.data.splits
    sizes = f"{len(splits.train):,} training, {len(splits.validation):,} validation"
    if job.group.setting.teaching.active:
        sizes += f" and {len(data.unlabeled_indices):,} unlabelled"
    notes = "".join(f"; {note}" for note in data.dataset.notes)
    pixels = f"{data.dataset.size}x{data.dataset.size} pixels"
    return f"data: {data.dataset.name}, {len(data.dataset.classes)} classes, {pixels}: {sizes} images{notes}"


def _learners(job: SearchJob) -> list[str]:
    return [f"learner {k}: {searcher.summary}" for k, searcher in enumerate(job.searchers)]


def _steps(job: SearchJob) -> list[str]:
    course, moved = job.course, {"labellers": "V alone", "all": "the architecture too"}
    moved["weights"] = "V and W" if course.teaches else "W alone"
    by_stage: dict[tuple[int, ...], list[str]] = {}
    for part in course.stretches:
        by_stage.setdefault(part.stages, []).append(f"{part.end - part.begin:,} of {moved[part.kind]}")
    parts = [", then ".join(words) for words in by_stage.values()]
    told = f"{len(parts)} times {parts[0]}" if len(parts) > 1 and len(set(parts)) == 1 else "; then ".join(parts)
    travels = {searcher.relaxed.method.optimizer.lr: searcher.schedule for searcher in reversed(job.searchers)}
    return [
        f"steps: {course.steps:,} in {job.config.epochs} epochs: {told}",
        f"architecture gradient: {in_words(job.config.hypergradient, taught=job.group.setting.teaching.active)}",
        *(
            f"travel: Adam at {schedule.architecture_rate(own):.3g} can move a logit of the architecture by "
            f"{schedule.travel(own):.3g} (7.5 in the paper)"
            for own, schedule in reversed(travels.items())
        ),
    ]


def _memory(job: SearchJob) -> list[str]:
    expected, available = expected_memory(job), available_memory()
    first = " in the first stage" if any(one.number_of_stages > 1 for one in job.course.schedules) else ""
    if available is None:
        return [f"memory: about {expected / 1e9:.1f} GB{first}"]
    lines = [f"memory: about {expected / 1e9:.1f} GB{first}, and {available / 1e9:.1f} GB are free"]
    if expected > available:
        lines.append("warning: that may not fit; a smaller search.batch_size, space.channels or space.cells needs less")
    return lines
