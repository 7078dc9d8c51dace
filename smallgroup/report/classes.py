"""Classes: who teaches whom, what was disputed, and what a trained network confuses."""

import base64
import binascii
from collections.abc import Mapping, Sequence

from smallgroup.report import palette
from smallgroup.report.markup import Child, Markup, table, tag
from smallgroup.report.run import Run, at, finite, whole
from smallgroup.report.teaching import MOST_CLASSES, ClassView, TeachingByClass, teaching_of
from smallgroup.report.words import percent, section, signed, tabs

MOST_IMAGES = 24
LARGEST_IMAGE = 60_000
"""Characters of a picture in a gallery."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def shaded(share: float | None, source: str, digits: int = 0, label: str | None = None) -> Markup:
    """A share in percent as a field of a table: by number and by colour; `label` is its head on narrow screens."""
    if share is None:
        return tag("td", "", class_="shaded", data_label=label)
    words = f"{share:.{digits}f}"
    return tag("td", words, class_=f"shaded {palette.shade(share / 100)}", title=f"from {source}", data_label=label)


def teaching_section(run: Run, twin: Run | None, prefix: str) -> Markup | None:
    """The paper's Figure 1, measured."""
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
        else "It may have improved by itself: the same run with lambda = 0 given beside this one tells."
    )
    more = f" The {len(shown)} classes in which V differs most at the start; metrics.jsonl has {left_out} more."
    return section(
        f"{prefix}teaching",
        "Who teaches whom",
        tabs(f"{prefix}teach", panels, "view"),
        about=about + (more if left_out else ""),
    )


def _rebuilt(run: Run, found: TeachingByClass) -> str:
    """A sentence on networks that were built anew; empty if none was."""
    if not run.rebuilds:
        return ""
    many = "s" * (len(run.rebuilds) > 1)
    when = f"Networks were built anew after epoch{many} {', '.join(map(str, run.rebuilds))}"
    if not found.same_networks:
        return f"{when}: start and end are of different networks, and what changed in between says little of teaching. "
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
    rows = [tag("tr", tag("th", one.name, scope="row"), *_told(run, found, one, head, twin=with_twin)) for one in shown]
    return table(head, rows, "Who is strong and who is weak, by class", class_="classes cards", role="table")


def _told(run: Run, found: TeachingByClass, one: ClassView, head: Sequence[str], *, twin: bool) -> list[Markup]:
    """The fields of a class; where nobody is strong, that and nothing else."""
    roles, first = one.roles, one.v["start"]
    if roles is None:
        return [tag("td", f"no difference: {first[0]:.0f} % each", colspan=len(head) - 1, class_="none")]
    labels = iter(head[1:])
    counted = "metrics.jsonl: pseudo_labels, summed over epochs {} to {}".format(*found.labelled)
    made = [
        tag("td", _who(run, first, roles.strong), data_label=next(labels)),
        tag("td", _who(run, first, roles.weak), data_label=next(labels)),
        shaded(roles.quality, counted, label=next(labels)),
        shaded(one.w["start"][roles.weak], "metrics.jsonl: w_recognised", label=next(labels)),
        shaded(one.w["end"][roles.weak], "metrics.jsonl: w_recognised", label=next(labels)),
        tag("td", f"{signed(roles.change, 0)} points", data_label=next(labels)),
    ]
    source = "metrics.jsonl of the run with lambda = 0: w_recognised"
    return [*made, shaded(roles.twin, source, label=next(labels))] if twin else made


def _who(run: Run, shares: Sequence[float], place: int) -> Markup:
    """A learner and its share, and who has the same: with three and more, two may be the strongest."""
    others = [str(run.learners[i]) for i, share in enumerate(shares) if share == shares[place] and i != place]
    same = f" (as {', '.join(others)})" if others else ""
    share = tag("span", f"{shares[place]:.0f} %", class_="whole")
    return tag("span", f"learner {run.learners[place]}: ", share, same)


def _by_moment(run: Run, found: TeachingByClass, shown: Sequence[ClassView], role: str) -> Markup:
    labels = ("that are right", "right") if found.truth else ("on which peers agree", "agreed")
    caption, key = {
        "v": ("Recognised by V, percent by class", "v_recognised"),
        "w": ("Recognised by W, percent by class", "w_recognised"),
        "labels": (f"Labels {labels[0]}, percent by class", f"pseudo_labels.{labels[1]}"),
    }[role]
    head: list[Child] = ["class"]
    head += [f"learner {k}, {moment}" for k in run.learners for moment in found.moments]
    rows = []
    for one in shown:
        tables: dict[str, Mapping[str, Sequence[float | None]]] = {"v": one.v, "w": one.w, "labels": one.labels}
        values = tables[role]
        cells = [
            shaded(values[moment][place], f"{_line_of(run, k, epoch)}: {key}[{one.number}]")
            for place, k in enumerate(run.learners)
            for moment, epoch in found.moments.items()
        ]
        rows.append(tag("tr", tag("th", one.name, scope="row"), *cells))
    return table(head, rows, caption, class_="classes")


def _line_of(run: Run, learner: int, epoch: int) -> str:
    """Where the numbers of a learner and an epoch come from."""
    row = run.row(learner, epoch)
    return "metrics.jsonl" if row is None else f"metrics.jsonl line {row.line}"


def gallery_section(run: Run, prefix: str) -> Markup | None:
    """Unlabelled images on which learners disagree most."""
    entries = run.gallery.get("images")
    if not isinstance(entries, list):
        return None
    figures = [made for entry in entries[:MOST_IMAGES] if (made := _picture(run, entry)) is not None]
    if not figures:
        return None
    epoch = whole(run.gallery.get("epoch"))
    when = "an epoch" if epoch is None else f"epoch {epoch + 1}"  # the file counts from 0
    about = (
        f"The unlabelled images whose soft labels differed most in {when} (gallery.json), by Jensen-Shannon "
        "divergence as a part of the largest possible. Bars are the likeliest classes of each learner's V."
    )
    return section(f"{prefix}gallery", "Disputed images", tag("div", *figures, class_="gallery"), about=about)


def _picture(run: Run, entry: object) -> Markup | None:
    picture, labels = at(entry, "picture"), at(entry, "labels")
    if not is_png(picture) or not isinstance(labels, list):
        return None
    divergence, true = finite(at(entry, "divergence")), whole(at(entry, "class"))
    name = at(entry, "name")
    index = whole(at(entry, "image"))
    title = str(name) if isinstance(name, str) else f"image {index}"
    known = "" if true is None else f"truly {_class(run, true)}"
    bars = [_bars(run, k, label) for k, label in enumerate(labels) if isinstance(label, list)]
    about = "" if divergence is None else f"divergence {divergence:.2f}"
    return tag(
        "figure",
        tag("img", src=f"data:image/png;base64,{picture}", alt=f"{title} {known}".strip(), width=72, height=72),
        tag(
            "figcaption",
            tag("strong", title, class_="file"),
            tag("span", known, class_="note"),
            tag("span", about, class_="note"),
        ),
        *bars,
        class_="picture",
    )


def is_png(picture: object) -> bool:
    """Whether a text is a small PNG in base64, and nothing else."""
    if not isinstance(picture, str) or len(picture) > LARGEST_IMAGE:
        return False
    try:
        return base64.b64decode(picture, validate=True).startswith(SIGNATURE)
    except (binascii.Error, ValueError):
        return False


def _class(run: Run, number: int) -> str:
    return run.classes[number] if number < len(run.classes) else f"class {number}"


def _bars(run: Run, learner: int, label: Sequence[object]) -> Markup:
    bars = []
    for pair in label[:3]:
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        number, share = whole(pair[0]), finite(pair[1])
        if number is None or share is None:
            continue
        look = f"{palette.shade(share)} of-{palette.series(learner)}"
        bars.append(tag("li", tag("span", _class(run, number)), tag("span", f"{100 * share:.0f} %"), class_=look))
    return tag("div", tag("span", f"learner {learner}", class_="who"), tag("ol", *bars, class_="bars"))


def confusion_section(run: Run, prefix: str) -> Markup | None:
    """What the trained network takes for what."""
    table_ = run.result.get("confusion")
    errors = run.result.get("class_errors")
    if not isinstance(errors, dict) or not errors:
        return None
    worst = sorted(((finite(error) or 0.0, str(name)) for name, error in errors.items()), reverse=True)[:MOST_CLASSES]
    rows = [
        tag("tr", tag("th", name, scope="row"), shaded(error, f"{run.front}result.json: class_errors[{name}]", 1))
        for error, name in worst
    ]
    parts = [table(["class", "test error, %"], rows, "Test error by class, the hardest first", class_="classes")]
    names = list(map(str, errors))
    if isinstance(table_, list) and len(table_) == len(names) <= MOST_CLASSES:
        body = [
            _confused(name, line, f"{run.front}result.json: confusion[{number}]")
            for number, (name, line) in enumerate(zip(names, table_, strict=True))
        ]
        parts.append(
            table(
                ["is \\ taken for", *names],
                body,
                "Test images by class and the class they were given",
                class_="classes confusion",
            )
        )
    return section(
        f"{prefix}classes",
        "Classes",
        tag("div", *parts, class_="stack"),
        about=f"Test images: {percent(finite(run.result.get('test_error')))} wrong in all.",
    )


def _confused(name: str, line: object, source: str) -> Markup:
    counts = [finite(value) or 0.0 for value in line] if isinstance(line, list) else []
    total = sum(counts) or 1.0
    fields = []
    for place, one in enumerate(counts):
        look = f"shaded {palette.shade(one / total)}" if one else "shaded"
        fields.append(tag("td", f"{one:.0f}", class_=look, title=f"from {source}[{place}]"))
    return tag("tr", tag("th", name, scope="row"), *fields)
