"""Nothing that is not ours becomes markup."""

import json

import pytest

from smallgroup.report.markup import Markup, embedded, number, tag, text

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><!--"


def test_texts_are_escaped_and_markup_is_not() -> None:
    assert tag("p", HOSTILE) == ("<p>&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;/script&gt;&lt;!--</p>")
    assert tag("p", tag("b", "x")) == "<p><b>x</b></p>"
    assert tag("p", None, "") == "<p></p>"


def test_attributes_are_escaped_named_and_left_out() -> None:
    made = tag("a", href=HOSTILE, class_="x", data_source="y", hidden=True, title=None, open=False)
    assert made.startswith('<a href="&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;/script&gt;&lt;!--" ')
    assert made.endswith(' class="x" data-source="y" hidden></a>')


def test_controls_are_replaced() -> None:
    assert text("a\x00b\x1b[31m\u202ec\nd") == r"a\x00b\x1b[31m\u202ec" "\nd"


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


def test_markup_is_a_text() -> None:
    assert isinstance(tag("p"), Markup)
