"""What a search is going to do, in a few lines, before it does it."""

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
    lines = []
    for k, searcher in enumerate(job.searchers):
        space, count = searcher.relaxed.space, sum(tensor.numel() for tensor in searcher.learner.w.values())
        lines.append(f"learner {k}: {searcher.relaxed.method.name} in {space.name}, {count:,} parameters")
    return lines


def _steps(job: SearchJob) -> list[str]:
    schedule = job.schedule
    kinds = [
        (schedule.v_steps, "V alone"),
        (schedule.still - schedule.v_steps, "V and W" if schedule.teaches else "W alone"),
        (schedule.steps - schedule.still, "the architecture too"),
    ]
    moved = ", then ".join(f"{count:,} of {what}" for count, what in kinds if count)
    travels = [
        (schedule.architecture_rate(own), schedule.travel(own))
        for own in dict.fromkeys(searcher.relaxed.method.optimizer.lr for searcher in job.searchers)
    ]
    return [
        f"steps: {schedule.steps:,} in {job.config.epochs} epochs: {moved}",
        *(
            f"travel: Adam at {rate:.3g} can move a logit of the architecture by {travel:.3g} (7.5 in the paper)"
            for rate, travel in travels
        ),
    ]


def _memory(job: SearchJob) -> list[str]:
    expected, available = expected_memory(job), available_memory()
    if available is None:
        return [f"memory: about {expected / 1e9:.1f} GB"]
    lines = [f"memory: about {expected / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free"]
    if expected > available:
        lines.append("warning: that may not fit; a smaller search.batch_size, space.channels or space.cells needs less")
    return lines
