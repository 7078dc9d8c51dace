"""Classes: who teaches whom, what was disputed, and what a trained network confuses."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smallgroup.report import palette
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run, at, finite, whole
from smallgroup.report.teaching import MOST_CLASSES, ClassView, TeachingByClass, teaching_of
from smallgroup.report.words import percent, signed

MOST_IMAGES = 24
LARGEST_IMAGE = 60_000
"""Characters of a picture in a gallery."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class ShadedField:
    """A field of a table that says a share by number and by color."""

    words: str = ""
    shade: str | None = None
    """The class that has its color."""
    source: str | None = None
    label: str | None = None
    """The head of its column, shown beside it on narrow screens."""


def shaded(share: float | None, source: str, digits: int = 0, label: str | None = None) -> ShadedField:
    """Return the field of a share in percent; an empty one where it is not known."""
    if share is None:
        return ShadedField(label=label)
    return ShadedField(f"{share:.{digits}f}", palette.shade(share / 100), f"from {source}", label)


def teaching_section(run: Run, twin: Run | None, prefix: str) -> Markup | None:
    """Return the section "Who teaches whom": the paper's Figure 1, measured. None: nothing was measured."""
    found = teaching_of(run, twin)
    if found is None:
        return None
    shown = found.classes[:MOST_CLASSES]
    left_out = len(found.classes) - len(shown)
    panels = [
        ("Who is strong, who improves", _story(run, found, shown)),
        ("V by class", _by_moment(run, found, shown, "v")),
        ("W by class", _by_moment(run, found, shown, "w")),
    ]
    if any(share is not None for one in found.classes for shares in one.labels.values() for share in shares):
        panels.append(("Labels by class", _by_moment(run, found, shown, "labels")))
    what = (
        "their true classes, which the learners never see"
        if found.truth
        else "one another, because the true classes of these images are not known: agreement is no proof of being right"
    )
    about = (
        f"Learners that begin differently are strong in different classes. Epochs {found.moments['start']} (start), "
        f"{found.moments['middle']} (middle) and {found.moments['end']} (end), in percent of the validation images of "
        f"the class. {_rebuilt(run, found)}Labels are compared with {what}. {_improved(found)} "
    )
    about += (
        "The run with lambda = 0 shows what it reaches without being taught."
        if twin is not None
        else "It may have improved by itself: compare with the same run with lambda = 0."
    )
    more = f" The {len(shown)} classes in which V differs most at the start; metrics.jsonl has {left_out} more."
    about += more if left_out else ""
    return render("teaching.html", anchor=f"{prefix}teaching", about=about, name=f"{prefix}teach", panels=panels)


def _rebuilt(run: Run, found: TeachingByClass) -> str:
    """Return a sentence on networks that were rebuilt; empty if none was."""
    if not run.rebuilds:
        return ""
    many = "s" * (len(run.rebuilds) > 1)
    when = f"Networks were rebuilt after epoch{many} {', '.join(map(str, run.rebuilds))}"
    if not found.same_networks:
        return f"{when}: start and end are of different networks, so their difference says little about teaching. "
    return f"{when}: these epochs are of one stage, the last with two that were measured. "


def _improved(found: TeachingByClass) -> str:
    tied = len(found.classes) - len(found.differing)
    alike = f"In {tied} of {len(found.classes)} classes V does not differ at the start. " if tied else ""
    if not found.differing:
        return alike.strip()
    others = "others" if tied else "classes"
    return (
        f"{alike}In {found.improved} of the {len(found.differing)} {others} W of the learner that began weak is better "
        "at the end than at the start."
    )


def _story(run: Run, found: TeachingByClass, shown: Sequence[ClassView]) -> Markup:
    with_twin = any(roles.twin is not None for roles in found.differing)
    head = ["class", "strong (V at start)", "weak (V at start)"]
    head += ["labels of the strong, right" if found.truth else "labels of the strong, agreed on"]
    head += ["W of the weak: start", "W of the weak: end", "change"]
    head += ["end without teaching"] if with_twin else []
    rows = [_told(run, found, one, head[1:], twin=with_twin) for one in shown]
    return render("story.html", head=head, rows=rows)


def _told(run: Run, found: TeachingByClass, one: ClassView, labels: Sequence[str], *, twin: bool) -> dict[str, object]:
    """Return what the row of a class shows. If no learner is stronger in it, the row says only that."""
    roles, first = one.roles, one.v["start"]
    if roles is None:
        return {"name": one.name, "none": f"no difference: {first[0]:.0f} % each"}
    counted = "metrics.jsonl: pseudo_labels, summed over epochs {} to {}".format(*found.labeled)
    recognized = "metrics.jsonl: w_recognised"
    after = [shaded(roles.twin, "metrics.jsonl of the run with lambda = 0: w_recognised", label=labels[-1])]
    return {
        "name": one.name,
        "none": "",
        "labels": labels,
        "who": [_who(run, first, roles.strong), _who(run, first, roles.weak)],
        "fields": [
            shaded(roles.quality, counted, label=labels[2]),
            shaded(one.w["start"][roles.weak], recognized, label=labels[3]),
            shaded(one.w["end"][roles.weak], recognized, label=labels[4]),
        ],
        "change": f"{signed(roles.change, 0)} points",
        "after": after if twin else [],
    }


def _who(run: Run, shares: Sequence[float], place: int) -> tuple[int, str, str]:
    """Return a learner, its share, and those with an equal share: with three and more, two may be the strongest."""
    others = [str(run.learners[i]) for i, share in enumerate(shares) if share == shares[place] and i != place]
    return run.learners[place], f"{shares[place]:.0f} %", f" (as {', '.join(others)})" if others else ""


def _by_moment(run: Run, found: TeachingByClass, shown: Sequence[ClassView], role: str) -> Markup:
    labels = ("that are right", "right") if found.truth else ("on which peers agree", "agreed")
    caption, key = {
        "v": ("Recognized by V, percent by class", "v_recognised"),
        "w": ("Recognized by W, percent by class", "w_recognised"),
        "labels": (f"Labels {labels[0]}, percent by class", f"pseudo_labels.{labels[1]}"),
    }[role]
    head = ["class", *(f"learner {k}, {moment}" for k in run.learners for moment in found.moments)]
    rows = []
    for one in shown:
        tables: dict[str, Mapping[str, Sequence[float | None]]] = {"v": one.v, "w": one.w, "labels": one.labels}
        values = tables[role]
        fields = [
            shaded(values[moment][place], f"{_line_of(run, k, epoch)}: {key}[{one.number}]")
            for place, k in enumerate(run.learners)
            for moment, epoch in found.moments.items()
        ]
        rows.append((one.name, fields))
    return render("shaded_table.html", head=head, rows=rows, caption=caption, kind="classes")


def _line_of(run: Run, learner: int, epoch: int) -> str:
    """Return the source of the numbers of a learner and an epoch."""
    row = run.row(learner, epoch)
    return "metrics.jsonl" if row is None else f"metrics.jsonl line {row.line}"


def gallery_section(run: Run, prefix: str) -> Markup | None:
    """Draw the unlabeled images on which learners disagree most."""
    entries = run.gallery.get("images")
    if not isinstance(entries, list):
        return None
    figures = [made for entry in entries[:MOST_IMAGES] if (made := _picture(run, entry)) is not None]
    if not figures:
        return None
    epoch = whole(run.gallery.get("epoch"))
    when = "an epoch" if epoch is None else f"epoch {epoch + 1}"  # the file counts from 0
    about = (
        f"The unlabeled images whose soft labels differed most in {when} (gallery.json), by Jensen-Shannon "
        "divergence as a part of the largest possible. Bars are the likeliest classes of each learner's V."
    )
    return render(
        "gallery.html", anchor=f"{prefix}gallery", title="Disputed images", about=about, pictures=figures, half=False
    )


def _picture(run: Run, entry: object) -> dict[str, object] | None:
    labels = at(entry, "labels")
    if (picture := _shown(entry)) is None or not isinstance(labels, list):
        return None
    divergence, true = finite(at(entry, "divergence")), whole(at(entry, "class"))
    return {
        **picture,
        "known": "" if true is None else f"truly {_class(run, true)}",
        "about": "" if divergence is None else f"divergence {divergence:.2f}",
        "learners": [(k, _bars(run, k, label)) for k, label in enumerate(labels) if isinstance(label, list)],
    }


def _shown(entry: object) -> dict[str, object] | None:
    """Return the picture of an entry and its title; None if it is no picture."""
    picture, name = at(entry, "picture"), at(entry, "name")
    if not is_png(picture):
        return None
    return {"png": picture, "title": str(name) if isinstance(name, str) else f"image {whole(at(entry, 'image'))}"}


def mistakes_section(run: Run, prefix: str) -> Markup | None:
    """Test images that the trained network takes for another class."""
    entries = run.mistakes.get("images")
    if not isinstance(entries, list):
        return None
    pictures = []
    for entry in entries[:MOST_IMAGES]:
        true, given = whole(at(entry, "class")), whole(at(entry, "given"))
        if (picture := _shown(entry)) is None or given is None:
            continue
        share = finite(at(entry, "confidence"))
        known = f"taken for {_class(run, given)}" + ("" if true is None else f", is {_class(run, true)}")
        about = "" if share is None else f"probability {100 * share:.0f} %"
        pictures.append({**picture, "known": known, "about": about, "learners": []})
    if not pictures:
        return None
    wrong = whole(run.mistakes.get("wrong"))
    of = "" if wrong is None or wrong <= len(pictures) else f" of {wrong:,}"
    about = (
        f"{len(pictures)}{of} test images that the network classifies wrongly, the most certain first "
        f"({run.front}mistakes.json)."
    )
    title = "Misclassified test images"
    return render("gallery.html", anchor=f"{prefix}mistakes", title=title, about=about, pictures=pictures, half=True)


def is_png(picture: object) -> bool:
    """Return whether a text is a small PNG in base64 and nothing else."""
    if not isinstance(picture, str) or len(picture) > LARGEST_IMAGE:
        return False
    try:
        return base64.b64decode(picture, validate=True).startswith(SIGNATURE)
    except (binascii.Error, ValueError):
        return False


def _class(run: Run, number: int) -> str:
    return run.classes[number] if number < len(run.classes) else f"class {number}"


def _bars(run: Run, learner: int, label: Sequence[object]) -> list[tuple[str, str, str]]:
    """Return the class, the share and the look of each bar."""
    bars = []
    for pair in label[:3]:
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        number, share = whole(pair[0]), finite(pair[1])
        if number is None or share is None:
            continue
        look = f"{palette.shade(share)} of-{palette.series(learner)}"
        bars.append((_class(run, number), f"{100 * share:.0f} %", look))
    return bars


def confusion_section(run: Run, prefix: str) -> Markup | None:
    """Draw the classes that the trained network confuses."""
    table = run.result.get("confusion")
    errors = run.result.get("class_errors")
    if not isinstance(errors, dict) or not errors:
        return None
    worst = sorted(((finite(error) or 0.0, str(name)) for name, error in errors.items()), reverse=True)[:MOST_CLASSES]
    names = list(map(str, errors))
    confused = []
    if isinstance(table, list) and len(table) == len(names) <= MOST_CLASSES:
        source = f"{run.front}result.json: confusion"
        confused = [
            (name, _confused(line, f"{source}[{number}]"))
            for number, (name, line) in enumerate(zip(names, table, strict=True))
        ]
    return render(
        "classes.html",
        anchor=f"{prefix}classes",
        about=f"Test images: {percent(finite(run.result.get('test_error')))} wrong in all.",
        errors=[(name, [shaded(error, f"{run.front}result.json: class_errors[{name}]", 1)]) for error, name in worst],
        names=names,
        confused=confused,
    )


def _confused(line: object, source: str) -> list[ShadedField]:
    counts = [finite(value) or 0.0 for value in line] if isinstance(line, list) else []
    total = sum(counts) or 1.0
    return [
        ShadedField(f"{one:.0f}", palette.shade(one / total) if one else None, f"from {source}[{place}]")
        for place, one in enumerate(counts)
    ]
