"""Who teaches whom: by class, who is strong and who is weak, how good the labels are, and whether the weak improve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smallgroup.report.run import MetricsRow, Run

MOST_CLASSES = 20
"""Classes that are shown: those in which learners differ most."""


@dataclass(frozen=True)
class ClassView:
    """One class as the learners see it; shares in percent, by learner where they are lists."""

    name: str
    number: int
    v: dict[str, list[float]]
    """Images of the class that V recognizes, at the start, in the middle and at the end."""
    w: dict[str, list[float]]
    labels: dict[str, list[float | None]]
    """How good each learner's labels are: images of this class that it labeled rightly; where true classes are not
    known, labels of this class on which peers agree. None where it gave none."""
    roles: "Roles | None"
    """None if V of all learners is equally accurate at the start: then no learner is the strong one."""

    @property
    def difference(self) -> float:
        """Between V of the strong and of the weak learner, at the start."""
        return max(self.v["start"]) - min(self.v["start"])


@dataclass(frozen=True)
class Roles:
    """The strong and the weak learner in a class, and what came of it."""

    strong: int
    weak: int
    quality: float | None
    """Quality of the strong learner's labels over the whole search, or over the stage that is shown."""
    change: float
    """Change of W of the weak learner from start to end, in points."""
    twin: float | None = None
    """What W of the weak learner recognizes at the same end in a run without teaching."""


@dataclass(frozen=True)
class TeachingByClass:
    """All classes, those with the largest difference first."""

    classes: tuple[ClassView, ...]
    moments: dict[str, int]
    """The epochs that count as start, middle and end."""
    truth: bool
    """Whether the quality of labels is measured against true classes."""
    labeled: tuple[int, int]
    """First and last of the epochs whose labels are counted together."""
    same_networks: bool
    """Whether start and end are of the same networks: none was rebuilt in between."""

    @property
    def differing(self) -> list[Roles]:
        """Of the classes in which somebody is strong."""
        return [one.roles for one in self.classes if one.roles is not None]

    @property
    def improved(self) -> int:
        """Classes in which W of the weak learner is better at the end than at the start."""
        return sum(roles.change > 0 for roles in self.differing)


def teaching_of(run: Run, twin: Run | None = None) -> TeachingByClass | None:
    """Measure teaching by class; None without two learners that have V and W by class."""
    measured = [epoch for epoch in run.epochs if _complete(run, epoch)]
    if len(run.learners) < 2 or len(measured) < 2:
        return None
    epochs = next((stage for stage in reversed(_stages(run, measured)) if len(stage) > 1), measured)
    moments = {"start": epochs[0], "middle": epochs[len(epochs) // 2], "end": epochs[-1]}
    tables = {
        role: {moment: _tables(run, epoch, f"{role}_recognised") for moment, epoch in moments.items()}
        for role in ("v", "w")
    }
    together = _between(run, moments)
    counts = {k: _labels(run, k, together) for k in run.learners}
    truth = all("right" in table for table in counts.values()) and bool(counts)
    # Tables of all classes, made once: to make them again for every class takes minutes with a few thousand.
    given = {moment: [_labels(run, k, [epoch]) for k in run.learners] for moment, epoch in moments.items()}
    untaught = _twin_tables(twin, run.learners, moments["end"])
    names, found = run.classes, []
    for c in range(len(tables["v"]["start"][0])):
        v, w = ({m: [table[c] for table in tables[role][m]] for m in moments} for role in ("v", "w"))
        first = v["start"]
        strong, weak = first.index(max(first)), first.index(min(first))
        labels = {
            moment: [_quality(table, c, len(run.learners), truth=truth) for table in given[moment]]
            for moment in moments
        }
        roles = None
        if first[strong] > first[weak]:
            change = w["end"][weak] - w["start"][weak]
            quality = _quality(counts[run.learners[strong]], c, len(run.learners), truth=truth)
            alone = untaught[weak]
            roles = Roles(strong, weak, quality, change, alone[c] if c < len(alone) else None)
        name = names[c] if c < len(names) else f"class {c}"
        found.append(ClassView(name, c, v, w, labels, roles))
    found.sort(key=lambda one: (-one.difference, one.number))
    same = not any(moments["start"] <= epoch < moments["end"] for epoch in run.rebuilds)
    return TeachingByClass(tuple(found), moments, truth, (together[0], together[-1]), same)


def _stages(run: Run, epochs: Sequence[int]) -> list[list[int]]:
    """Return epochs, split wherever a network was rebuilt: what one network learned is not in the next."""
    stages: dict[int, list[int]] = {}
    for epoch in epochs:
        stages.setdefault(sum(end < epoch for end in run.rebuilds), []).append(epoch)
    return list(stages.values())


def _between(run: Run, moments: Mapping[str, int]) -> list[int]:
    """Return all epochs of the networks shown, including those before the first measurement."""
    before = [end for end in run.rebuilds if end < moments["start"]]
    return [epoch for epoch in run.epochs if max(before, default=-1) < epoch <= moments["end"]]


def _complete(run: Run, epoch: int) -> bool:
    rows = [run.row(k, epoch) for k in run.learners]
    sizes = [len(row.numbers(f"{role}_recognised") or []) for row in rows if row is not None for role in ("v", "w")]
    return len(sizes) == 2 * len(run.learners) and min(sizes) > 0 and len(set(sizes)) == 1


def _tables(run: Run, epoch: int, name: str) -> list[list[float]]:
    rows: list[MetricsRow | None] = [run.row(k, epoch) for k in run.learners]
    return [row.numbers(name) or [] for row in rows if row is not None]


def _labels(run: Run, learner: int, epochs: Sequence[int]) -> dict[str, list[float]]:
    """Return the counts of labels by class, summed over epochs."""
    totals: dict[str, list[float]] = {}
    for row in filter(None, (run.row(learner, epoch) for epoch in epochs)):
        for name in ("given", "agreed", "images", "right"):
            counts = row.numbers("pseudo_labels", name)
            if counts is not None:
                before = totals.get(name, [0.0] * len(counts))
                totals[name] = [a + b for a, b in zip(before, counts, strict=False)]
    return totals


def _quality(counts: dict[str, list[float]], c: int, learners: int, *, truth: bool) -> float | None:
    part, whole_, times = ("right", "images", 1) if truth else ("agreed", "given", learners - 1)
    try:
        total = counts[whole_][c] * times
        return 100 * counts[part][c] / total if total else None
    except (KeyError, IndexError):
        return None


def _twin_tables(twin: Run | None, learners: Sequence[int], end: int) -> list[list[float]]:
    """Return what W of each learner recognizes by class in a run without teaching; empty if not known."""
    epoch = min(end, twin.epochs[-1]) if twin is not None and twin.epochs else end
    rows = [None if twin is None else twin.row(k, epoch) for k in learners]
    return [[] if row is None else row.numbers("w_recognised") or [] for row in rows]
