"""Foreign text made safe to print and to write: one function for every output, and one more for each file format.

Class names, file names and the content of run and study folders may come from anyone. `printable` leaves nothing in
them that a terminal acts on or that starts a new line. The others build on it and add what their format needs.
"""

import html
import re

LONGEST = 200
"""Characters of a foreign text (a path, a file's own words) that may enter a sentence."""
_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
}
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that make a spreadsheet compute a cell; the last four are their full-width forms."""
_COUNTED = "|".join(f"(?<=^{digits})" for digits in (r"\d" * count for count in range(1, 10)))
_MARKDOWN = re.compile(
    r"[\\`*~$|{@]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word an underscore is no emphasis
    r"|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])"  # tags and entities
    r"|\](?=[(\[:])|:(?=//)|(?<=[wW]{3})\."  # links
    rf"|^>|^[-+=](?=[-+= ]|$)|^#(?=[# ]|$)|(?:{_COUNTED})[.)](?= |$)"  # quotes, lists, headings
)
"""Characters that Markdown acts on where they stand. Others, such as the brackets of an interval, stay as they are."""


def printable(foreign: object, keep: str = "") -> str:
    r"""Return a text on one line in which every character that cannot be seen is an escape, such as `\n` or `\x1b`.

    That includes control characters, newlines, bidirectional and zero-width characters and lone surrogates.

    Args:
        foreign: anything with a text.
        keep: characters that the output can hold.
    """
    text = str(foreign)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else _visible(letter) for letter in text)


def _visible(letter: str) -> str:
    return ascii(letter)[1:-1]


def shown(foreign: object) -> str:
    """Return a printable text that is short enough for a sentence: the middle of a long one is left out."""
    text, half = printable(foreign), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def quoted(foreign: object) -> str:
    """Return what `shown` gives, in quotation marks. `repr` would escape its escapes once more."""
    return f"'{shown(foreign)}'"


def escape_html(foreign: object) -> str:
    """Return a text for HTML and SVG, inside an element or a quoted attribute. Line ends stay: they are only spaces."""
    return html.escape(printable(foreign, keep="\n\t"), quote=True)


def escape_tex(foreign: object) -> str:
    """Return a text for LaTeX in which nothing is a command. Within a comment, `printable` is enough."""
    return "".join(_TEX.get(letter, letter) for letter in printable(foreign))


def escape_markdown(foreign: object) -> str:
    """Return a text for a line or a table cell of Markdown in which nothing is markup, HTML, a link or a cell's end."""
    return _MARKDOWN.sub(r"\\\g<0>", printable(foreign).strip())


def escape_csv(foreign: object) -> str:
    """Return a text for a cell of CSV that no spreadsheet takes for a formula: an apostrophe goes before those."""
    text = printable(foreign)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def escape_label(foreign: object) -> str:
    """Return a text for a figure of matplotlib in which nothing is a formula."""
    return printable(foreign).replace("$", r"\$")
