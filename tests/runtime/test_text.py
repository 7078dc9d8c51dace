"""Foreign text is made harmless, and text that is harmless stays as it is."""

import re

import pytest
from markdown_it import MarkdownIt

from smallgroup.runtime.text import (
    LONGEST,
    escape_csv,
    escape_html,
    escape_label,
    escape_markdown,
    escape_tex,
    printable,
    shown,
)

UNSEEN = [
    *(chr(code) for code in (*range(32), *range(127, 160))),  # C0, DEL, C1
    *"\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\U000e0041\ud800\udcff",
]
PLAIN = ["a name", "Größe 3", "日本語", "عربي", "a-b_c (2), 5.3 ± 0.1 [4.2, 6.4]", "x = -1 & y < 2 > 1; 50 %"]


@pytest.mark.parametrize("letter", UNSEEN, ids=ascii)
def test_what_cannot_be_seen_is_written_as_an_escape(letter: str) -> None:
    made = printable(f"a{letter}b")
    assert made.isprintable()
    assert made == f"a{ascii(letter)[1:-1]}b"
    assert printable(made) == made
    for escape in (escape_tex, escape_markdown, escape_csv, escape_label, shown):
        assert escape(f"a{letter}b").isprintable()


@pytest.mark.parametrize("text", PLAIN)
def test_harmless_text_stays(text: str) -> None:
    assert printable(text) == escape_csv(text) == escape_label(text) == escape_markdown(text) == text


def test_long_texts_lose_their_middle() -> None:
    assert len(shown("\x1b" * 10_000)) == LONGEST + 3


def test_html_has_no_tag_and_no_end_of_an_attribute() -> None:
    assert escape_html("<b>\"'&\x1b\n") == "&lt;b&gt;&quot;&#x27;&amp;\\x1b\n"


def test_tex_has_no_command() -> None:
    made = escape_tex("a\n\\immediate\\write18{x} %$#^^5c~")
    known = r"\\(textbackslash|textasciicircum|textasciitilde)\{\}|\\[&%$#_{}]"
    assert not set("\\\n^%$#~") & set(re.sub(known, "", made))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", " =1", "\uff1d1"])
def test_csv_has_no_formula(text: str) -> None:
    assert escape_csv(text) == f"'{text}"
    assert escape_csv("\t=1") == "\\t=1"
    assert escape_csv("a=1") == "a=1"


LIVE = [
    *("[a](http://b)", "![a](b)", "[a][b]", "[a]: b", "<http://b>", "<b>", "</b>", "<!-- a -->", "<?a?>", "&lt;b&gt;"),
    *("*a*", "_a_", "__a__", "**a**", "~~a~~", "`a`", "```", "~~~", "# a", "## a", "> a", "- a", "+ a", "* a", "1. a"),
    *("999) a", "---", "===", "***", "___", "a | b", "a\\|b", "\\*a*", "\\", "    a", "\\<b>", "a\\", "[a\\](b)", "#"),
    *("-", "`<b>`", "[*a*](b)", "<a href='b'>", "![", "a_b_ c", "é_a_"),
]


@pytest.mark.parametrize("text", LIVE)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    """By a parser of others: the page has no element but the one in which the text was put, and all of its letters."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for page, frame in (
        (f"- {escape_markdown(text)}\n", "bullet_list_open list_item_open paragraph_open inline"),
        (f"# {escape_markdown(text)}\n", "heading_open inline"),
        (f"| {escape_markdown(text)} |\n|---|\n| b |\n", "table_open thead_open tr_open th_open inline"),
    ):
        tokens = parser.parse(page)
        assert " ".join(each.type for each in tokens[: len(frame.split())]) == frame
        inside = next(each for each in tokens if each.type == "inline").children or []
        assert {each.type for each in inside} <= {"text", "text_special"}
        assert "".join(each.content for each in inside) == text.strip()


def test_markdown_has_no_address_that_pages_turn_into_a_link() -> None:
    assert escape_markdown("http://a.b www.a.b a@b.c @a") == r"http\://a.b www\.a.b a\@b.c \@a"


def test_labels_of_figures_have_no_formula() -> None:
    assert escape_label(r"$\alpha$") == r"\$\alpha\$"
