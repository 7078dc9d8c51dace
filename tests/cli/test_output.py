"""Nothing foreign that is printed reaches the terminal as anything but letters."""

import io
import json

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from smallgroup.cli import main
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.display.console import CleanConsole, bar_columns
from smallgroup.display.display import Display

HOSTILE = "a\nb\x1b]0;title\x07\x9b31m\u202e[bold]c[/bold][link=http://d]e[/link]:smile:"
SEEN = r"a\nb\x1b]0;title\x07\x9b31m\u202e[bold]c[/bold][link=http://d]e[/link]:smile:"


def test_lines_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", HOSTILE, "")
    print_columns([(HOSTILE, 2), ("x", "y")])
    assert capsys.readouterr().out == f"one\n{SEEN}\n\n{SEEN}  2\n{'x':{len(SEEN)}}  y\n"


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({HOSTILE: ["é", "\x7f"]})
    said = capsys.readouterr().out
    assert said.isascii()
    assert said.replace("\n", "").isprintable()
    assert json.loads(said) == {HOSTILE: ["é", "\x7f"]}


@pytest.mark.parametrize("debug", [False, True])
def test_errors(debug: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", HOSTILE, *(["--debug"] if debug else [])]) == 2
    said = capsys.readouterr().err
    assert said.replace("\n", "").isprintable()
    assert r"\x1b]0;title\x07" in said
    assert said.startswith("Traceback" if debug else "error: ")


def terminal() -> tuple[CleanConsole, io.StringIO]:
    """A console that takes a file for a terminal."""
    console, file = CleanConsole(width=200), io.StringIO()
    console.file, console._force_terminal = file, True  # its constructor takes neither
    return console, file


def test_tables_bars_and_live_displays() -> None:
    console, file = terminal()
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(Text(HOSTILE))
    table.add_row(HOSTILE)
    console.print(table, HOSTILE, Text(HOSTILE))
    with Live(Text(HOSTILE), console=console, auto_refresh=False) as live:
        live.update(table, refresh=True)
    said = file.getvalue()
    assert "[bold]c[/bold][link=http://d]e[/link]:smile:" in said
    assert not {"\x07", "\x9b", "\u202e"} & set(said)
    assert "\x1b]" not in said  # our own are colors and movements of the cursor, which begin with \x1b[
    assert not any(getattr(column, "markup", False) for column in bar_columns())


def test_what_a_run_says_is_a_line() -> None:
    console, file = terminal()
    Display.say(type("Any", (), {"console": console})(), HOSTILE)
    assert SEEN in file.getvalue()
