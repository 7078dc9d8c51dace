"""A table as text: for people, for spreadsheets, for papers."""

import csv
import io
from collections.abc import Sequence

from smallgroup.runtime.text import escape_csv, escape_markdown, escape_tex, printable
from smallgroup.statistics import LEAST, Comparison, Equivalence
from smallgroup.study.measures import MEASURES
from smallgroup.study.table import SIGNIFICANT, Entry, Shown, Table, Verdict

THEIRS = "(paper)"
OF_ALL = ", mean of all learners"


def grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return titles, and the texts of all rows: measures, the paper's numbers if any, all learners, runs."""
    titles, columns = ["row"], list(table.columns)
    for name in columns:
        titles.append(MEASURES[name].title)
        if _has_theirs(table, name):
            titles.append(f"{MEASURES[name].title} {THEIRS}")
        if name == table.primary:
            titles.append("95 % interval of its mean")
    if _has_column_of_all(table):
        titles.append(f"{MEASURES[table.primary].title}{OF_ALL}")
    titles.append("n")
    return titles, [_texts(table, row) for row in table.rows]


def _texts(table: Table, row: Shown) -> list[str]:
    texts = [row.name]
    for name in table.columns:
        entry = row.entries[name]
        texts.append(number(entry, MEASURES[name].digits))
        if _has_theirs(table, name):
            texts.append(entry.theirs or "")
        if name == table.primary:
            texts.append(interval(entry, MEASURES[name].digits))
    if _has_column_of_all(table):
        texts.append(number(row.all_learners, MEASURES[table.primary].digits))
    done = len(row.entries[table.primary].values)
    texts.append(str(done) if done == row.wanted else f"{done} of {row.wanted}")
    return texts


def number(entry: Entry, digits: int) -> str:
    """Return mean and deviation; the mean alone of fewer than three runs; a dash of none."""
    summary = entry.summary
    if summary is None:
        return "–"
    mean = f"{summary.mean:.{digits}f}"
    return mean if summary.std is None else f"{mean} ± {summary.std:.{digits}f}"


def interval(entry: Entry, digits: int) -> str:
    """Return the interval of the mean; a dash for fewer than three runs."""
    found = None if entry.summary is None else entry.summary.interval
    return "–" if found is None else f"[{found[0]:.{digits}f}, {found[1]:.{digits}f}]"


def sentences(table: Table) -> list[str]:
    """Return the sentences below the table."""
    said = [f"± is the standard deviation over searches; rows of fewer than {LEAST} runs have none."]
    said += [text for name in table.columns if (text := _over_retrainings(table, name))]
    said += [sentence(verdict) for verdict in table.verdicts]
    said += [f"{row.name}, {failure}" for row in table.rows for failure in row.failed]
    said += [
        f"{row.name}: {MEASURES[table.primary].title} is not known of seed {', '.join(map(str, row.without))}, though "
        "the runs are done"
        for row in table.rows
        if row.without
    ]
    return [*said, *table.footer]


def _over_retrainings(table: Table, name: str) -> str:
    """Return how much trainings of one cell differ, apart from differences between searches; nothing if not known."""
    measure = MEASURES[name]
    if measure.larger_is_better is None:
        return ""
    known = [(row.name, row.entries[name].over_retrainings) for row in table.rows]
    parts = [f"{row} {deviation:.{measure.digits}f}" for row, deviation in known if deviation is not None]
    return f"standard deviation over retrainings of one cell, {measure.title}: {'; '.join(parts)}" if parts else ""


def sentence(verdict: Verdict) -> str:
    """Return a claim and its outcome, with every comparison it rests on."""
    measure = MEASURES[verdict.measure]
    place = ", ".join(f"{key} = {value}" for key, value in verdict.point.items())
    where = f" ({place})" if place else ""
    parts = [
        compared(
            f"{verdict.claim.row} > {name}",
            comparison,
            verdict.adjusted[name],
            verdict.possible[name],
            measure.digits,
        )
        + _within_margin(verdict, name, measure.digits)
        for name, comparison in verdict.comparisons.items()
    ]
    return f"{verdict.claim.says}{where}: {verdict.answer}, by {measure.title}: {'; '.join(parts)}."


def _within_margin(verdict: Verdict, name: str, digits: int) -> str:
    """Return whether the difference is too small to matter, and the comparison; nothing without a margin."""
    found: Equivalence | None = verdict.equivalences.get(name)
    if found is None:
        return ""
    text = f", mean difference {found.difference:+.{digits}f}"
    if found.interval is not None and found.p is not None:
        low, high = found.interval
        text += f" (90 % [{low:+.{digits}f}, {high:+.{digits}f}]), within {found.margin:g}: p = {found.p:.3g}"
        adjusted = verdict.adjusted_equivalences[name]
        text += "" if adjusted is None else f" (Holm {adjusted:.3g})"
    return f"{text}: {verdict.side(name)}"


def compared(names: str, found: Comparison | None, adjusted: float | None, possible: float | None, digits: int) -> str:
    """Return one comparison; better is positive, whichever way the measure goes."""
    if found is None:
        return f"{names}: no seed in common yet"
    text = f"{names}: {_difference(found, digits)}"
    if found.p is None:
        return text
    text += f", p = {found.p:.3g}"
    if adjusted is not None:
        text += f" (Holm {adjusted:.3g})"
    if found.smallest_p is not None:
        text += _limit(found.smallest_p, possible, found.n[0])
    if found.effect is not None:
        text += f", effect {found.effect:+.2f}"
    return text


def _difference(found: Comparison, digits: int) -> str:
    """Return the difference, and the runs it is computed from."""
    paired = found.kind == "wilcoxon"
    text = f"{'median difference' if paired else 'difference of means'} {found.difference:+.{digits}f}"
    if found.interval is not None:
        low, high = found.interval
        text += f" [{low:+.{digits}f}, {high:+.{digits}f}]"
    if not paired:
        return f"{text}, not paired (Welch), n = {found.n[0]} and {found.n[1]}"
    return f"{text}, n = {found.n[0]}" if found.p is None else f"{text}, better in {found.better} of {found.n[0]}"


def _limit(smallest_p: float, possible: float | None, n: int) -> str:
    """Return what so many seeds could show at best."""
    if smallest_p >= SIGNIFICANT:
        return f"; n = {n} cannot show it, its smallest p is {smallest_p:.3g}"
    if possible is not None and possible >= SIGNIFICANT:
        return (
            f"; n = {n} cannot show it among so many comparisons, its smallest p is {smallest_p:.3g} and "
            f"{possible:.3g} after Holm"
        )
    return f", smallest p {smallest_p:.3g}"


def markdown(table: Table) -> str:
    """Return the table as Markdown."""
    titles, rows = grid(table)
    lines = [f"# {escape_markdown(table.title)}", "", _piped(titles), "| --- " * len(titles) + "|"]
    lines += [_piped(row) for row in rows]
    return "\n".join([*lines, "", *(f"- {escape_markdown(said)}" for said in sentences(table))]) + "\n"


def comma_separated(table: Table) -> str:
    """Return every value of every seed, and of every training if there are several, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "measure", "seed", "value"])
    for row in table.rows:
        whose = escape_csv(row.name)
        of_all = {} if table.takes_means else {f"{table.primary}{OF_ALL}": row.all_learners}
        for name, entry in {**row.entries, **of_all}.items():
            writer.writerows([whose, name, seed, repr(value)] for seed, value in sorted(entry.values.items()))
            for seed, values in sorted(entry.retrained.items()):
                several = enumerate(values, start=1) if len(values) > 1 else ()
                writer.writerows([whose, f"{name}, training {i}", seed, repr(value)] for i, value in several)
    return out.getvalue()


def latex(table: Table) -> str:
    """Return a table for a paper, with booktabs."""
    titles, rows = grid(table)
    lines = [r"\begin{table}[t]", rf"\caption{{{escape_tex(table.title)}}}", r"\centering"]
    lines += [rf"\begin{{tabular}}{{l{'c' * (len(titles) - 1)}}}", r"\toprule", _ampersands(titles), r"\midrule"]
    lines += [_ampersands(row) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {printable(said)}" for said in sentences(table))]) + "\n"


def _has_column_of_all(table: Table) -> bool:
    """Return whether the mean of all learners differs from what the primary measure shows."""
    return MEASURES[table.primary].of_learner is not None and not table.takes_means


def _has_theirs(table: Table, name: str) -> bool:
    return any(row.entries[name].theirs for row in table.rows)


def _piped(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, texts)) + " |"


def _ampersands(texts: Sequence[str]) -> str:
    row = " & ".join(map(escape_tex, texts)) + r" \\"
    return f"{{}}{row}" if row[0] in "[*" else row  # or it would be read as an option of the row before
