"""The command: what it prints, how it fails, and with which exit code."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import smallgroup
from smallgroup.cli import describe as describe_module
from smallgroup.cli import lists, main
from smallgroup.cli.app import app
from smallgroup.recipes import PaperRow
from smallgroup.spaces import SPACES
from smallgroup.spaces.darts import DartsGenotype
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import from_plain, published_about, write
from smallgroup.study import row_times
from smallgroup.study.row_times import RowTime
from tests.report.makers import make_run

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|none~0|nor_conv_3x3~1|avg_pool_3x3~2|"

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _rows_are_timed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row needs more memory than there is; to measure all networks takes a minute."""

    def timed(rows: Sequence[PaperRow], tell: Callable[[str], None], _device: object) -> list[RowTime]:
        tell("a network")
        rest = [RowTime(100.0, 1e9)] * (len(rows) - 2)
        return [RowTime(1.234 * 86400, 123 * 86400), RowTime(1.234 * 86400, None), *rest]

    monkeypatch.setattr(row_times, "row_times", timed)
    monkeypatch.setattr(row_times, "machine_is_busy", lambda: False)


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *capsys.readouterr()


def document(capsys: Captured, *arguments: str) -> Any:
    """What a command prints with --json: one document, and nothing beside it."""
    code, out, error = run(capsys, *arguments, "--json")
    assert (code, error) == (0, "")
    return json.loads(out)


def refused(capsys: Captured, *arguments: str) -> str:
    """The one line a command says about bad input."""
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert error.endswith("\n")
    return error


def test_describe(capsys: Captured) -> None:
    code, out, error = run(capsys, "describe", "DARTS_V2")
    assert (code, error) == (0, "")
    assert out.startswith("DARTS_V2\n")
    assert "parameters     3,349,342\n" in out
    assert "\n               3,825,768 with auxiliary head of two batch norms\n" in out
    assert "multiply-adds  528,359,040\n" in out
    assert "\n               546,883,200 with batch norms and ReLUs\n" in out
    assert out.endswith(draw(published()["DARTS_V2"]) + "\n")


def test_describe_in_json(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "genotype.json"
    write(path, published()["PDARTS"])
    found = document(capsys, "describe", str(path), CELL, "--network", "imagenet")
    assert [(entry["name"], entry["parameters"]) for entry in found] == [(str(path), 4_944_352), (CELL, 809_576)]
    assert found[0]["multiply_adds"] == 542_819_328
    assert [entry["network"] for entry in found] == ["imagenet", "imagenet"]
    assert [entry["space"] for entry in found] == ["darts", "nas-bench-201"]
    assert from_plain(found[0]["space"], found[0]["genotype"]) == published()["PDARTS"]
    assert round(found[0]["multiply_adds_with_elementwise"] / 1e6, 1) == 557.1
    # With the head of P-DARTS itself; the benchmark has none.
    assert [entry["parameters_with_auxiliary"] for entry in found] == [6_206_664, None]
    assert [entry["auxiliary"] for entry in found] == ["two-norms", "none"]


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("PDARTS", [], 6_206_664),
        ("PDARTS", ["--auxiliary", "one-norm"], 6_205_128),
        ("DARTS-/cifar10_s0_0", [], 6_122_568),
        ("DARTS_V2", [], 5_979_528),
        ("DARTS_V2", ["--auxiliary", "two-norms"], 5_981_064),
    ],
)
def test_the_head_for_imagenet_is_that_of_the_release_unless_another_is_asked_for(
    name: str, options: list[str], count: int, capsys: Captured
) -> None:
    (found,) = document(capsys, "describe", name, "--network", "imagenet", *options)
    assert found["parameters_with_auxiliary"] == count


def test_describe_many_at_once(capsys: Captured, tmp_path: Path) -> None:
    """Files of both kinds, text and a name, in the order they were given."""
    nested, flat = tmp_path / "nested.json", tmp_path / "tuples.txt"
    write(nested, published()["DARTS_V1"])
    text = notation_of(published()["AmoebaNet_A"])
    flat.write_text("AmoebaNet_A = " + text)
    found = document(capsys, "describe", str(nested), "DARTS_V2", text, str(flat), "--network", "cifar100")
    assert [(e["name"], e["parameters"], e["parameters_with_auxiliary"], e["multiply_adds"]) for e in found] == [
        (str(nested), 3_221_344, 3_766_980, 501_039_360),
        ("DARTS_V2", 3_401_272, 3_946_908, 528_410_880),
        ("genotype", 3_184_048, 3_711_252, 488_970_432),
        (str(flat), 3_184_048, 3_711_252, 488_970_432),
    ]
    assert {entry["auxiliary"] for entry in found} == {"two-norms"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.yaml", "search: {epochs: many}", "config.yaml cannot be used: search.epochs must be a whole number"),
        ("config.yaml", None, "config.yaml"),
        ("facts.json", "{", "facts.json cannot be used: "),
        ("facts.json", None, "there is no facts.json"),
        ("facts.json", '{"classes": ["a", "b"]}', "facts.json must say what the images are like, but it does not"),
        ("facts.json", '{"classes": ["a"], "image": {"size": 8}}', "facts.json must say what the images are like, but"),
    ],
)
def test_describe_says_that_a_network_is_not_that_of_a_damaged_run(
    name: str, text: str | None, said: str, capsys: Captured, tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "run")
    (own,) = document(capsys, "describe", str(folder))
    assert (own["network"], own["problem"]) == ("run", None)
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    code, out, warning = run(capsys, "describe", str(folder))
    assert code == 0
    assert "network        cifar10, images of 32x32, not that of the run\n" in out
    assert warning.startswith(f"warning: {folder}: ")
    assert said in warning
    size = "; the size is that of a network for cifar10 around its cell, not that of the run's network\n"
    assert warning.endswith(size)
    code, out, warning = run(capsys, "describe", str(folder), "--json")
    (found,) = json.loads(out)
    assert found["network"] == "cifar10"
    assert warning == f"warning: {folder}: {found['problem']}{size}"
    assert run(capsys, "describe", str(folder), "--network", "cifar10")[2] == ""


def notation_of(genotype: DartsGenotype) -> str:
    """Genotype(normal=[('op', 0), ...], normal_concat=[...], ...), as papers print it."""
    parts = []
    for name, cell in (("normal", genotype.normal), ("reduce", genotype.reduce)):
        parts.append(f"{name}={[tuple(edge) for node in cell.nodes for edge in node]}")
        parts.append(f"{name}_concat={list(cell.concat)}")
    return f"Genotype({', '.join(parts)})"


def test_describe_says_nothing_of_a_head_where_there_is_none(capsys: Captured) -> None:
    _, out, _ = run(capsys, "describe", CELL)
    assert "parameters     802,426\nmultiply-adds  113,951,360\n" in out
    assert "auxiliary" not in out
    _, out, _ = run(capsys, "describe", "PDARTS", "--network", "imagenet")
    assert "6,206,664 with auxiliary head of two batch norms\n" in out


@pytest.mark.parametrize("what", ["genotypes", "spaces", "datasets", "methods", "recipes", "rows", "keys"])
def test_lists(what: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    entries = document(capsys, "list", what)
    assert entries
    code, out, _ = run(capsys, "list", what)
    assert code == 0
    for entry, line in zip(entries, out.splitlines(), strict=True):
        assert entry["about"]
        assert line.startswith(entry["name"])
        assert line.endswith(entry["about"])


def test_what_the_lists_name(capsys: Captured) -> None:
    assert [entry["name"] for entry in document(capsys, "list", "genotypes")] == list(published_about())
    assert [entry["name"] for entry in document(capsys, "list", "spaces")] == list(SPACES)
    assert [entry["name"] for entry in document(capsys, "list", "datasets")][:2] == ["digits", "cifar10"]
    assert "darts" in [entry["name"] for entry in document(capsys, "list", "methods")]


def test_doctor(capsys: Captured, tmp_path: Path) -> None:
    found = document(capsys, "doctor", "--data-root", str(tmp_path))
    assert found["smallgroup"] == smallgroup.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "threads", "cpus", "cuda", "data_root"} < set(found)
    assert [device["name"] for device in found["devices"]][:1] == ["cpu"]
    assert all(device["works"] for device in found["devices"])
    assert found["data_root"] == str(tmp_path)
    status = {finding["what"]: finding["status"] for finding in found["findings"]}
    assert status["digits"] == "ok"
    assert status["cifar10"] == status["nas-bench-201"] == status["nas-bench-301"] == "missing"
    code, out, error = run(capsys, "doctor", "--data-root", str(tmp_path))
    assert (code, error) == (0, "")
    assert "digits         ok" in out
    assert re.search(
        r"^cpu  ok  cpu, [\d.]+ GB in all, [\d.]+ GB free  a convolution and its gradient", out, re.MULTILINE
    )


def test_doctor_says_what_is_damaged(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "nas-bench-201").mkdir()
    (tmp_path / "nas-bench-201" / "table.csv").write_text("architecture\n")
    code, out, _ = run(capsys, "doctor", "--data-root", str(tmp_path))
    assert code == 1
    assert "nas-bench-201  damaged  " in out


def test_doctor_looks_at_folders(capsys: Captured, tmp_path: Path) -> None:
    code, out, _ = run(capsys, "doctor", "--data-root", str(tmp_path), f"folder:{tmp_path / 'none'}")
    assert code == 1
    assert f"folder:{tmp_path / 'none'}  missing" in out
    assert "folder:PATH, hf:NAME, own:NAME, but got 'images'" in refused(capsys, "doctor", "images")


@pytest.mark.skipif("SMALLGROUP_DATA" not in os.environ, reason="needs SMALLGROUP_DATA")
def test_doctor_finds_the_data_of_the_environment(capsys: Captured) -> None:
    found = document(capsys, "doctor")
    status = {finding["what"]: finding["status"] for finding in found["findings"]}
    assert status["nas-bench-201"] == status["nas-bench-301"] == "ok"
    assert status["cifar10"] in ("ok", "subset")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "DARTS_V3"], "did you mean DARTS_V2?"),
        (["describe", "DARTS_V2", "DARTS_V3"], "did you mean DARTS_V2?"),
        (["describe", "DARTS_V2", "--network", "svhn"], "network must be one of cifar10, cifar100, imagenet, but got"),
        (["describe", "{\n\n"], "must be JSON, but line 3 is not"),
        (["describe", "x\n(y)"], "must hold one genotype, but it holds 2 statements"),
        (["describe", "."], "No such file or directory"),
        (["describe"], "Missing argument 'GENOTYPE'"),
        (["describe", "DARTS_V2", "--netwrk", "x"], "No such option: --netwrk"),
        (
            ["list", "networks"],
            "what to list must be one of genotypes, methods, spaces, datasets, ground-truths, exporters, recipes, "
            "studies, rows, references, keys, but got 'networks'",
        ),
        (["list"], "Missing argument"),
        (["searhc"], "No such command 'searhc'"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize("arguments", [["--debug", "describe", "DARTS_V3"], ["describe", "DARTS_V3", "--debug"]])
def test_a_traceback_only_with_debug(arguments: list[str], capsys: Captured) -> None:
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert error.startswith("Traceback")
    assert "did you mean DARTS_V2?" in error


def test_after_two_dashes_nothing_is_an_option(capsys: Captured) -> None:
    assert "'--debug' is not a published genotype" in refused(capsys, "describe", "--", "--debug")


def test_a_failed_run(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(describe_module, "build_network", fail)
    assert run(capsys, "describe", "DARTS_V2") == (1, "", "error: RuntimeError: out of memory (--debug shows where)\n")


def test_interrupted(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setitem(lists.LISTS, "spaces", interrupt)
    assert run(capsys, "list", "spaces") == (130, "", "error: interrupted\n")


def test_help_and_version(capsys: Captured) -> None:
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"smallgroup {smallgroup.__version__}\n")
    code, out, _ = run(capsys)
    assert code == 0
    assert all(word in out for word in ("describe", "list", "doctor", "--version", "--debug"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("describe", ("GENOTYPE", "--network", "cifar10|cifar100|imagenet", "--json")),
        ("list", ("genotypes, methods, spaces, datasets", "--json")),
        ("doctor", ("folder:PATH", "--data-root", "SMALLGROUP_DATA", "--json")),
    ],
)
def test_help_of_commands(command: str, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert result.exit_code == 0
    for word in words:
        assert word in result.output


def names_of_commands(group: Any, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The group itself, its commands, and those of the groups in it."""
    inside = getattr(group, "commands", {})
    return [before, *(each for name in inside for each in names_of_commands(inside[name], (*before, name)))]


def test_every_argument_and_option_has_a_plain_name() -> None:
    unnamed = []
    for words in names_of_commands(get_command(app)):
        command: Any = get_command(app)
        for word in words:
            command = command.commands[word]
        flags = [one for one in command.params if getattr(one, "is_flag", False)]
        unnamed += [(*words, one.name) for one in command.params if one.metavar is None and one not in flags]
    assert unnamed == []


def test_help_and_lists_fit_80_columns(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = names_of_commands(get_command(app))
    assert {("search",), ("bench", "step")} <= set(commands)
    for words in [*((*command, "--help") for command in commands), *(("list", what) for what in lists.LISTS)]:
        code, out, _ = run(capsys, *words)
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80, words
        if "--help" in words:
            assert not re.search(r"<\w+|list\[|\{\w+", out), words  # types of Python
        assert not re.search(r"[a-z]\.\.\.$", out, re.MULTILINE), words  # the line on a command is not cut off
    assert "pip install 'smallgroup[onnx]'" in " ".join(run(capsys, "export", "--help")[1].split())
    assert "\n  and --config overrides the recipe." in run(capsys, "search", "--help")[1]


def test_rows_have_the_days_that_they_take_here(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    first, second, *rest = document(capsys, "list", "rows")
    assert (first["search_days"], first["training_days"]) == (1.2, 120)
    assert (second["search_days"], second["training_days"]) == (1.2, None)
    assert {row["search_days"] for row in rest} == {0.0012}
    code, out, error = run(capsys, "list", "rows")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].endswith("; about 1.2 days of search and 120 of training")
    assert lines[1].endswith("; the training needs more memory than is free")
    assert lines[2].endswith("; about 0.0012 days of search and 12,000 of training")
    assert "busy" not in error
    monkeypatch.setattr(row_times, "machine_is_busy", lambda: True)
    error = run(capsys, "list", "rows")[2]
    assert error.startswith("measuring every network once, five minutes or more; --no-estimate ")
    assert "right to about a factor of 2" in error
    assert error.endswith("warning: the machine is busy: estimates may be far off and are not cached\n")
    assert max(map(len, error.splitlines())) <= 80
    code, out, error = run(capsys, "list", "rows", "--no-estimate")
    assert (code, error) == (0, "")
    assert "days" not in out
    assert len(out.splitlines()) == len(lines)


def test_lists_in_a_pipe_have_one_line_per_entry(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = run(capsys, "list", "rows")[1]
    assert len(out.splitlines()) == len(lists.LISTS["rows"]())


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smallgroup", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_as_a_process() -> None:
    good = process("describe", "DARTS_V1", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)[0]["parameters"] == 3_169_414
    bad = process("describe", "DARTS_V3")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: 'DARTS_V3' is not a published genotype")


def test_a_terminal_without_unicode() -> None:
    result = process("describe", "DARTS_V1", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert result.returncode == 0
    assert "sep_conv_3x3" in result.stdout


LATE = "from smallgroup.cli import lists, main; lists.print_columns = print; raise SystemExit(main(['list', 'spaces']))"
"""Prints through Python's own buffer, which finds out at the end only."""


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs pipes of POSIX")
@pytest.mark.parametrize("program", [["-m", "smallgroup", "list", "genotypes"], ["-c", LATE]])
def test_a_reader_that_leaves(program: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        result = subprocess.run(
            [sys.executable, *program],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )
    assert (result.returncode, result.stderr) == (1, "")


def test_the_doctor_is_not_sent_to_nowhere(capsys: Captured) -> None:
    assert "folder:PATH, hf:NAME, own:NAME, but got 'folder:'" in refused(capsys, "doctor", "folder:")
