"""Nothing that is not ours becomes markup."""

import json
import re
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from smallgroup.report.markup import Markup, embedded, number, render, text

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><!--"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;/script&gt;&lt;!--"


def test_a_template_cleans_and_escapes_whatever_enters_it() -> None:
    values = {"level": "h1", "name": f"{HOSTILE}\x1b\u202e", "state": ("running", Markup("<b>x</b>")), "words": None}
    made = render("header.html", **values)
    name = rf"{ESCAPED}\x1b\u202e"
    assert made.strip() == (
        f'<header><h1>{name} <span class="state running"><b>x</b></span></h1><p class="lead"></p></header>'
    )
    made = render("nav.html", links=[("x", HOSTILE)], name=HOSTILE, inner=False)
    assert made.count(f'"#{ESCAPED}"') == made.count(f'aria-label="parts of {ESCAPED}"') == 1
    with pytest.raises(UndefinedError, match="'links' is undefined"):
        render("nav.html", name="x", inner=False)


def test_no_template_has_a_way_around_it() -> None:
    """`~`, `join`, `xmlattr` and `format` make markup of texts without the cleaning; `safe` without escaping."""
    templates = [one for one in files("smallgroup.report").joinpath("templates").iterdir() if one.is_file()]
    assert len(templates) > 20
    for one in templates:
        code = re.findall(r"\{[{%].*?[%}]\}", one.read_text(encoding="utf-8"), re.DOTALL)
        found = re.findall(r"~|\|\s*(?:safe|join|xmlattr|format|replace|urlize)|autoescape|Markup", " ".join(code))
        assert found == [], one.name


def test_controls_are_replaced() -> None:
    assert text("a\x00b\x1b[31m\u202ec\nd") == r"a\x00b\x1b[31m\u202ec" "\nd"
    assert text(None) == ""
    assert text(Markup("<b>")) == "<b>"


def test_embedded_json_cannot_end_its_element_and_reads_back() -> None:
    document = {"a": HOSTILE, "b": ["\u2028", "</SCRIPT>", "]]>"]}
    made = embedded(document)
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == document
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded(float("nan"))


@pytest.mark.parametrize(
    ("value", "written"), [(1.0, "1"), (1.239, "1.24"), (-0.001, "0"), (120.5, "120.5"), (10.0, "10"), (-3.0, "-3")]
)
def test_coordinates_are_short(value: float, written: str) -> None:
    assert number(value) == written
