"""What must not be in anything that a command prints or writes."""

import csv
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from tests.tools.fuzz.outputs.exported import texts_of_onnx, texts_of_pt2

BINARY = {".pdf", ".png", ".safetensors"}
"""Files that nobody reads as text."""
EXPORTS = {".onnx": texts_of_onnx, ".pt2": texts_of_pt2}
_LINE = re.compile(r"^[\s\-%|#>*]*(?:sgxline|\\immediate)", re.MULTILINE)
_STYLED = re.compile(r"(?<!\[bold\])sgxbold")
_TEX_WORDS = {"begin", "end", "caption", "centering", "toprule", "midrule", "bottomrule"}
_TEX_WORDS |= {"textbackslash", "textasciitilde", "textasciicircum", "pm", *"\\&%$#_{}"}
_MARKDOWN_PARTS = {"link_open", "image", "html_inline", "code_inline", "em_open", "strong_open", "s_open", "html_block"}
_ADDRESS = re.compile(r"(?<!\\)://|[wW]{3}\.|(?<!\\)@")


def look_at_text(text: str, keep: str = "\n") -> Iterator[str]:
    """Of every output: control characters, lines that an attack began, and console markup that was obeyed."""
    unseen = sorted({letter for letter in text if not letter.isprintable() and letter not in keep})
    if unseen:
        yield f"characters that are not printable: {', '.join(map(ascii, unseen))}"
    if found := _LINE.search(text):
        yield f"a line that is not ours: {found[0].strip()!r}"
    if _STYLED.search(text):
        yield "console markup that counts"


def look_at_file(path: Path) -> Iterator[str]:
    """Of a file: the same, and what its format would act on."""
    if path.suffix in BINARY:
        return
    if path.suffix in EXPORTS:
        yield from dict.fromkeys(defect for text in EXPORTS[path.suffix](path) for defect in look_at_text(text))
        return
    text = path.read_bytes().decode()
    if path.suffix in (".html", ".svg"):
        # A new line is a space there.
        yield from (one for one in look_at_text(text, keep="\n\t") if "a line" not in one)
    else:
        yield from look_at_text(text)
    looks = {".html": _html, ".svg": _svg, ".tex": _tex, ".csv": _csv, ".md": _markdown}
    if path.suffix in looks:
        yield from looks[path.suffix](text)


class _Page(HTMLParser):
    """Elements and attributes as a browser sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.live: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing of ours has such a name, or code in an attribute."""
        names = [name for name, value in attrs if name.startswith(("sgx", "on"))]
        names += [f"{name}={value[:20]}" for name, value in attrs if value and value.startswith("javascript:")]
        if tag.startswith("sgx") or names:
            self.live.append(f"<{tag} {' '.join(names)}>")


def _html(text: str) -> Iterator[str]:
    page = _Page()
    page.feed(text)
    page.close()
    if page.live:
        yield f"live HTML: {page.live[0]}"


def _svg(text: str) -> Iterator[str]:
    yield from _html(text)
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        yield f"no XML: {error}"


def _tex(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        code = re.match(r"(?:\\.|[^\\%])*", line)
        words = set(re.findall(r"\\([A-Za-z]+|.)", code[0])) - _TEX_WORDS if code else set()
        if words or (code and "^^" in code[0]):
            yield f"live TeX: {line[:80]!r}"
            return


def _csv(text: str) -> Iterator[str]:
    for row in csv.reader(io.StringIO(text)):
        formulas = [cell for cell in row if re.match(r"\s*[=+\-@]", cell) and not _is_number(cell)]
        if formulas or len(row) != 4:
            yield f"a formula or a row of its own in CSV: {row}"
            return


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _markdown(text: str) -> Iterator[str]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inside = [part.type for token in tokens for part in (token, *(token.children or ()))]
    if live := _MARKDOWN_PARTS & set(inside):
        yield f"live Markdown: {', '.join(sorted(live))}"
    outside = re.sub(r"^```text\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    if found := _ADDRESS.search(outside):
        yield f"an address in Markdown: {outside[max(0, found.start() - 20) : found.end() + 20]!r}"
    width = 0
    for line in outside.split("\n"):
        pipes = len(re.findall(r"(?:\\.)|(\|)", line)) and sum(bool(one) for one in re.findall(r"(?:\\.)|(\|)", line))
        if line.startswith("|"):
            width = width or pipes
            if pipes != width:
                yield f"a row of another width in Markdown: {line[:80]!r}"
                return
        else:
            width = 0
