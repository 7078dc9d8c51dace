"""Golden tables: what is printed, to the letter."""

import csv
import io
from dataclasses import replace

import pytest

from smallgroup.statistics import compare_paired, compare_unpaired, equivalent_paired, holm
from smallgroup.study.file import Claim
from smallgroup.study.formats import comma_separated, compared, latex, markdown, sentence
from smallgroup.study.table import Entry, Shown, Table, Verdict


def shown(name: str, values: dict[int, float], theirs: str | None = None, failed: tuple[str, ...] = ()) -> Shown:
    """A row of one measure."""
    entries = {"percentile": Entry(values, theirs)}
    return Shown(name, entries, Entry({seed: value - 1 for seed, value in values.items()}), 6, failed)


def a_table() -> Table:
    """A group that is better than one control in every seed, and has met the other in two."""
    group = {seed: 50.0 + seed for seed in range(1, 7)}
    alone = {seed: 49.0 + seed / 2 for seed in range(1, 7)}
    taught = {1: 51.0, 2: 53.0}
    found = {"alone": compare_paired(group, alone), "self-taught": compare_paired(group, taught)}
    ps = holm([one.p for one in found.values()])
    claim = Claim(says="teaching helps", row="group | 2", than=("alone", "self-taught"))
    possible = holm([one.smallest_p for one in found.values()])
    verdict = Verdict(
        claim, "percentile", {}, dict(found), dict(zip(found, ps, strict=True)), dict(zip(found, possible, strict=True))
    )
    rows = [
        shown("group | 2", group, "53 ± 1"),
        shown("alone", alone),
        shown("self-taught", taught, None, ("seed 3: it broke",)),
    ]
    return Table("A & B", ["percentile"], "percentile", rows, [verdict], ["config hash 0123"])


def test_markdown() -> None:
    assert (
        markdown(a_table())
        == """\
# A & B

| row | percentile | percentile (paper) | 95 % interval of its mean | percentile, mean of all learners | n |
| --- | --- | --- | --- | --- | --- |
| group \\| 2 | 53.5 ± 1.9 | 53 ± 1 | [52.2, 54.8] | 52.5 ± 1.9 | 6 |
| alone | 50.8 ± 0.9 |  | [50.1, 51.4] | 49.8 ± 0.9 | 6 |
| self-taught | 52.0 |  | – | 51.0 | 2 of 6 |

- ± is the standard deviation over searches; rows of fewer than 3 runs have none.
- teaching helps: not shown, by percentile: group \\| 2 > alone: median difference +2.8 [+1.8, +3.8], better in 6 of 6\
, p = 0.0312 (Holm 0.0625); n = 6 cannot show it among so many comparisons, its smallest p is 0.0312 and 0.0625 after \
Holm, effect +1.00; \
group \\| 2 > self-taught: median difference -0.5, \
better in 0 of 2, p = 1 (Holm 1); n = 2 cannot show it, its smallest p is 0.5, effect -1.00.
- self-taught, seed 3: it broke
- config hash 0123
"""
    )


def test_latex() -> None:
    text = latex(a_table())
    assert r"\caption{A \& B}" in text
    assert r"\begin{tabular}{lccccc}" in text
    assert r"alone & 50.8 $\pm$ 0.9 &  & [50.1, 51.4] & 49.8 $\pm$ 0.9 & 6 \\" in text
    assert text.count(r"\\") == 4
    assert text.splitlines()[-1] == "% config hash 0123"


@pytest.mark.parametrize(
    ("name", "in_markdown", "in_latex"),
    [
        ("a_b", "| a_b |", r"a\_b &"),
        ("a\\|b", r"| a\\\|b |", r"a\textbackslash{}|b &"),
        ("[alone]", "| [alone] |", "{}[alone] &"),
        ("*", r"| \* |", "{}* &"),
    ],
)
def test_names_are_shown_as_they_are(name: str, in_markdown: str, in_latex: str) -> None:
    table = replace(a_table(), rows=[shown(name, {1: 50.0})])
    assert in_markdown in markdown(table).splitlines()[4]
    assert next(line for line in latex(table).splitlines() if "50.0" in line).startswith(in_latex)


def test_foreign_text_stays_text() -> None:
    """Why a run failed and what it ran on are read from its folder, which may come from anyone."""
    attack = "x\n\\immediate\\write18{y}\x1b[31m <b> [a](http://b)"
    row = replace(shown("=1+1", {1: 50.0}, "5\n| 6"), failed=(f"seed 2: {attack}",))
    table = replace(a_table(), rows=[row], verdicts=[], footer=[attack, "=1+1"])
    lines = latex(table).splitlines()
    after = lines[lines.index(r"\end{table}") + 1 :]
    assert len(after) == 4
    assert all(line.startswith("% ") for line in after)
    assert [line.count("|") for line in markdown(table).splitlines()[2:5]] == [7, 7, 8]  # one of them is a text
    assert r"- x\\n\\immediate\\write18\{y}\\x1b[31m \<b> [a\](http\://b)" in markdown(table)
    assert comma_separated(table).splitlines()[1] == "'=1+1,percentile,1,50.0"
    assert all(text.replace("\n", "").isprintable() for text in (latex(table), markdown(table), comma_separated(table)))


def test_every_training_is_there_to_compute_with() -> None:
    entry = Entry({1: 2.0, 2: 5.0}, None, {1: [1.5, 2.5], 2: [5.0]})
    table = replace(a_table(), rows=[Shown("a", {"percentile": entry}, Entry(), 2)])
    assert comma_separated(table).splitlines()[1:] == [
        "a,percentile,1,2.0",
        "a,percentile,2,5.0",
        'a,"percentile, training 1",1,1.5',
        'a,"percentile, training 2",1,2.5',
    ]


def test_comma_separated_values_are_exact() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(a_table()))))
    assert len(rows) == 28
    alone = {
        measure: [float(row["value"]) for row in rows if (row["row"], row["measure"]) == ("alone", measure)]
        for measure in ("percentile", "percentile, mean of all learners")
    }
    assert alone["percentile"] == [49.5, 50.0, 50.5, 51.0, 51.5, 52.0]
    assert alone["percentile, mean of all learners"] == [48.5, 49.0, 49.5, 50.0, 50.5, 51.0]


def test_means_of_rows_without_pairs_are_said_to_be_so() -> None:
    """Means 2 and 5, n = 3 and 3: t = -3.67 with four degrees of freedom, whose distribution has a closed form."""
    said = compared("a > b", compare_unpaired([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), 0.04, 0.0, 1)
    assert said == (
        "a > b: difference of means -3.0 [-5.3, -0.7], not paired (Welch), n = 3 and 3, p = 0.0213 (Holm 0.04), "
        "effect -2.40"
    )
    alone = compared("a > b", compare_unpaired([1.0], [4.0, 5.0]), None, None, 1)
    assert alone == "a > b: difference of means -3.5, not paired (Welch), n = 1 and 2"


def test_a_margin_is_part_of_the_sentence() -> None:
    """Differences -1, 0, 1, 2: of two one-sided tests with a margin of 2 the larger p is 0.0514."""
    first, second = {seed: seed - 2.0 for seed in range(1, 5)}, dict.fromkeys(range(1, 5), 0.0)
    found, within = compare_paired(first, second), equivalent_paired(first, second, 2.0)
    claim = Claim(says="it helps", row="a", than=("b",), margin=2.0)
    verdict = Verdict(
        claim, "percentile", {}, {"b": found}, {"b": found.p}, {"b": 0.125}, {"b": within}, {"b": within.p}
    )
    assert sentence(verdict) == (
        "it helps: undecided, by percentile: a > b: median difference +0.5 [-1.0, +2.0], better in 2 of 4, p = 0.75 "
        "(Holm 0.75); n = 4 cannot show it, its smallest p is 0.125, effect +0.50, mean difference +0.5 (90 % "
        "[-1.0, +2.0]), within 2: p = 0.0514 (Holm 0.0514): undecided."
    )
    clear = replace(verdict, adjusted_equivalences={"b": 0.01})
    assert sentence(clear).startswith("it helps: equivalent, by percentile")
    assert sentence(clear).endswith(": equivalent.")
