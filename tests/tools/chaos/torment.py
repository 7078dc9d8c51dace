"""Kill a run and resume it, again and again, and say what came of it."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.tools.chaos.attack import Attack, send
from tests.tools.chaos.child import Child
from tests.tools.chaos.compare import differences, durable, newest
from tests.tools.chaos.processes import all_gone, children
from tests.tools.chaos.subjects import Subject, warm_up


@dataclass
class Report:
    """What came of it."""

    kills: int = 0
    runs: int = 0
    resumptions: int = 0
    """Starts that took up a checkpoint, as far as they were heard."""
    mismatches: list[str] = field(default_factory=list)
    """What differs from an uninterrupted run; what was lost; which processes did not end."""
    ways: Counter[str] = field(default_factory=Counter)
    """How many kills of each kind."""
    moments: Counter[str] = field(default_factory=Counter)
    """And when: by the newest checkpoint, or by what was about to be done."""

    def add(self, other: "Report") -> None:
        """Count another one in."""
        self.kills, self.runs = self.kills + other.kills, self.runs + other.runs
        self.resumptions += other.resumptions
        self.mismatches += other.mismatches
        self.ways += other.ways
        self.moments += other.moments


def torment(
    subject: Subject, folder: Path, attacks: Iterable[Attack], prepare: Callable[[], None] | None = None
) -> Report:
    """Kill and resume a run until the attacks are over or the run is, and compare it with its like.

    `prepare` runs in the tormented processes alone: a way to make them wrong, and see that it is noticed.
    """
    warm_up()
    calm_folder, tormented = folder / "uninterrupted", folder / "tormented"
    start = time.monotonic()
    peaceful = subject if subject.uninterrupted is None else replace(subject, run=subject.uninterrupted)
    calm = Child.of(peaceful, calm_folder, None, None)
    if not calm.wait() or calm.code:
        raise RuntimeError(f"a run that nobody killed must end, but it did not ({calm.said.strip()[:300]})")
    pause = (time.monotonic() - (calm.heard or start)) / (sum(newest(calm_folder).values()) + 1)
    report, over = Report(runs=1), False
    tormented.mkdir()
    for attack in attacks:
        before = _durable(tormented, report)
        child = Child.of(subject, tormented, attack, prepare)
        seen = _attacked(child, tormented, attack, pause, report, breaks=attack.breaks or subject.breaks)
        if not all_gone(child.process, tormented, child.followers):
            report.mismatches.append(f"{attack.how}: processes are left that should have ended")
        _check_kept(child, before, seen or {}, _durable(tormented, report), report)
        over = seen is None
        if over:
            break
        report.kills += 1
        report.ways[attack.how] += 1
        report.moments[child.died_at or f"at checkpoint {sum(seen.values()) if seen else 0}"] += 1
    if not over:
        before = _durable(tormented, report)
        last = Child.of(subject, tormented, None, prepare)
        if not last.wait() or last.code:
            report.mismatches.append(f"it could not be resumed ({last.said.strip()[:300]})")
            return report
        _check_kept(last, before, {}, _durable(tormented, report), report)
    report.mismatches += differences(calm_folder, tormented)
    return report


def _durable(folder: Path, report: Report) -> dict[str, int]:
    try:
        return durable(folder)
    except ValueError as error:
        report.mismatches.append(f"what was saved cannot be read: {error}")
        return {}


def _attacked(
    child: Child, folder: Path, attack: Attack, pause: float, report: Report, *, breaks: bool
) -> dict[str, int] | None:
    """Carry an attack out; the checkpoints there were at that moment, None if the run ended before."""
    seen: dict[str, int] = {}
    if not attack.within:
        target = sum(newest(folder).values()) + attack.steps if attack.step is None else attack.step
        while sum(newest(folder).values()) < target:
            if child.poll():
                break
            time.sleep(0.003)
        time.sleep(attack.share * pause)
        seen, child.followers = newest(folder), children(child.process)
        if not child.poll():
            send(attack, child.process, attack.share * pause)
    if not child.wait():
        report.mismatches.append(f"{attack.how}: it did not end ({child.said.strip()[:300]})")
    elif child.code == 1 and not breaks:
        report.mismatches.append(f"{attack.how}: it failed ({child.said.strip()[:300]})")
    return seen if child.code else None


def _check_kept(
    child: Child, before: dict[str, int], seen: dict[str, int], after: dict[str, int], report: Report
) -> None:
    """What was saved is taken up, and stays until something newer is."""
    if child.started_at is not None:
        report.resumptions += child.started_at > 0
        if child.started_at != before.get(".", 0):
            wrong = f"it went on after step {child.started_at}, but step {before.get('.', 0)} was saved"
            report.mismatches.append(wrong)
    for run, step in (*before.items(), *seen.items()):
        if after.get(run, 0) < step:
            report.mismatches.append(f"the checkpoint of step {step} of {run} is lost, and {after.get(run)} is left")
