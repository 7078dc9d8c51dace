"""What holds in all of the package; layers are checked by `lint-imports`, as pyproject.toml says."""

import ast
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import smallgroup

PACKAGE = Path(smallgroup.__file__).parent
TESTS = Path(__file__).parents[1]
ACROSS = {
    "reliability": "what breaks runs: kills, disks, hostile files",
    "repository": "what holds in all files: documents, results, public names, rules of the package",
    "tools": "chaos, fuzzers and fingerprints, which tests and contributors call",
    "whole": "settings and plugins through all layers",
}
"""Folders of tests that go through many layers."""
SEEN_ELSEWHERE = {"display", "cli/commands"}
"""Folders of the package without tests of their own: what commands show and take is tested with the commands."""


def test_tests_mirror_the_package() -> None:
    tested = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    folders = {PACKAGE / folder for folder in tested if folder.parts[0] not in ACROSS}
    modules = {PACKAGE / path.name.removeprefix("test_") for path in TESTS.glob("test_*.py")}
    there = {path for path in PACKAGE.rglob("*") if path.is_dir()} | set(PACKAGE.glob("*.py"))
    there |= {path.with_suffix("") for path in PACKAGE.glob("*/*.py")}  # a module may have a folder of tests
    assert folders | modules <= there
    packages = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    covered = folders | {folder.parent for folder in folders}
    assert {path.relative_to(PACKAGE).as_posix() for path in packages - covered} == SEEN_ELSEWHERE


AMBIGUOUS = {"Row", "Measure", "Batch", "Kind", "Course", "Run", "Choice", "Evaluation"}
"""Words that could mean several things: not even a private class may take them a second time."""


def types_in(text: str) -> list[str]:
    """The public classes and names of types that a module defines; options of a command are no types of the package."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, ast.unparse(node.value)
            is_type = re.match(r"[A-Z]\w*[a-z]", name) and not re.match(
                r"(Annotated\[.*typer|TypeVar\()", value, re.DOTALL
            )
            found += [name] if is_type and not isinstance(node.value, ast.Constant) else []
    return [name.lstrip("_") for name in found if not name.startswith("_") or name.lstrip("_") in AMBIGUOUS]


def test_a_name_of_a_type_means_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in types_in(file.read_text()):
            found.setdefault(name, []).append(file.relative_to(PACKAGE).as_posix())
    assert len(found) > 300
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_names_of_types_are_noticed() -> None:
    text = "class Row: ...\nclass _Own: ...\nclass _Kind: ...\nBatch = tuple[int, int]\nFILE = 'a'\n"
    assert types_in(f"{text}Made = Annotated[str, typer.Option()]") == ["Row", "Kind", "Batch"]


DYNAMIC = {
    # By name: what is registered, and what a package exports on first use.
    "registry.py": 3,
    "spaces/__init__.py": 1,
    "runtime/lazy.py": 3,
    # Optional packages of others.
    "exporters/onnx.py": 3,
    "exporters/onnx_int8.py": 2,
    "spaces/darts/truth.py": 2,
}
"""Imports that `lint-imports` cannot see, by file: those of this package go downwards only by agreement."""


def test_imports_by_name_are_few() -> None:
    found: dict[str, int] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        names = [ast.unparse(call.func).rpartition(".")[2] for call in calls]
        if number := names.count("import_module") + names.count("__import__"):
            found[file.relative_to(PACKAGE).as_posix()] = number
    assert found == DYNAMIC


THIRD_PARTY = {
    "PIL": {"bench", "data", "exporters", "phases", "report", "runtime"},
    "datasets": {"data"},
    "jinja2": {"report"},
    "markupsafe": {"report"},
    "matplotlib": {"report", "study"},
    "onnx": {"exporters"},
    "onnxruntime": {"exporters", "spaces"},
    "pandas": {"phases"},
    "pydantic_core": {"runtime"},
    "pytest": {"testing"},
    "ray": {"study"},
    "rich": {"cli", "display"},
    "safetensors": {"testing"},
    "scipy": {"bench", "spaces", "statistics", "study"},
    "sklearn": {"data"},
    "typer": {"cli"},
    "yaml": {"cli", "keys", "runtime", "study"},
}
"""Where packages of others are used, by folder of the package, however they are imported."""
EVERYWHERE = {"torch", "numpy", "pydantic"}


def third_party_in(text: str) -> set[str]:
    """The packages of others that a program imports; those that it imports by name too, if the name stands there."""
    tree = ast.parse(text)
    names = [name for name in modules_named_in(tree) if not name.startswith(".")]
    if {"import_module", "importlib.import_module"} & {
        ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)
    }:
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        names += [text for text in texts if text.partition(".")[0] in THIRD_PARTY]
    first = {name.partition(".")[0] for name in names}
    return first - set(sys.stdlib_module_names) - EVERYWHERE - {"smallgroup", "__future__"}


def test_packages_of_others_have_their_places() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in third_party_in(file.read_text()):
            found.setdefault(name, set()).add(file.relative_to(PACKAGE).parts[0])
    assert found == THIRD_PARTY
    assert third_party_in("from PIL import Image\nimport torch, os, ray.util") == {"PIL", "ray"}
    assert third_party_in("import importlib\nimportlib.import_module('onnxruntime.tools')") == {"onnxruntime"}


FILE_ACCESS = {"open", "save", "load", "from_file", "fromfile", "tofile", "memmap"}
FILE_ACCESS |= {f"{verb}_{what}" for verb in ("read", "write") for what in ("text", "bytes")}


def file_access_in(text: str) -> list[str]:
    """What in a program reads or writes a file."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if ast.unparse(call.func).rpartition(".")[2] in FILE_ACCESS]


def test_the_group_opens_no_file() -> None:
    for file in sorted((PACKAGE / "group").rglob("*.py")):
        assert file_access_in(file.read_text()) == [], file
    for line in ("open(path)", "torch.save(v, path)", "torch.load(path)", "path.read_text()", "torch.from_file(path)"):
        assert file_access_in(line), line


FOLDERS_OF_SPACES = sorted(path.parent for path in PACKAGE.glob("spaces/*/__init__.py"))
TYPES_OF_SPACES = {"Genotype", "Space", "DerivedNetwork"} | {
    node.name
    for folder in FOLDERS_OF_SPACES
    for file in folder.rglob("*.py")
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.ClassDef)
}
IN_A_SPACE = re.compile(rf"smallgroup\.spaces\.({'|'.join(folder.name for folder in FOLDERS_OF_SPACES)})\b")


def modules_named_in(tree: ast.AST) -> list[str]:
    """Every module that a program imports, or may import from a package."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            found += [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return found


def test_imports_name_the_package() -> None:
    """Relative ones would be missed by the tests here."""
    found = {file: modules_named_in(ast.parse(file.read_text())) for file in PACKAGE.rglob("*.py")}
    assert {file: names for file, names in found.items() if any(name.startswith(".") for name in names)} == {}
    assert modules_named_in(ast.parse("from .darts import space")) == [".darts.space"]


def spaces_named_in(place: str, text: str) -> list[str]:
    """What a file says of a built-in space by name or by type, that the space itself should say."""
    own = place.startswith(("spaces/nas_bench_201/", "recipes/"))
    named = [] if own else re.findall(r"(?i)nas[_ -]?bench[_ -]?201", text)
    of_a_space = any((PACKAGE / place).is_relative_to(folder) for folder in FOLDERS_OF_SPACES)
    if not place.endswith(".py") or of_a_space:
        return named
    tree = ast.parse(text)
    named += [name for name in modules_named_in(tree) if IN_A_SPACE.match(name)]
    if place.startswith("spaces/"):
        return named
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type"):
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            names |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
            named += sorted(TYPES_OF_SPACES & names)
        if isinstance(node, ast.MatchClass):
            named += sorted(TYPES_OF_SPACES & {ast.unparse(node.cls).rpartition(".")[2]})
    return named


def test_nobody_outside_knows_a_space_by_name_or_type() -> None:
    files = [file for file in sorted(PACKAGE.rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
    assert {"DartsGenotype", "Cell", "Chain", "RobustS1", "NasBench201Network"} < TYPES_OF_SPACES
    found = {file: spaces_named_in(file.relative_to(PACKAGE).as_posix(), file.read_text()) for file in files}
    assert len(found) > 300
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "if space == 'nas-bench-201': pass",
        "from smallgroup.spaces.darts.genotype import INPUTS",
        "from smallgroup.spaces import proxyless",
        "import smallgroup.spaces.robust.definition",
        "isinstance(cell, Genotype)",
        "issubclass(type(cell), genotypes.Chain)",
        "isinstance(cell, genotypes.Cell | int)",
        "match cell:\n    case Cell(): pass",
    ],
)
def test_who_does_is_noticed(line: str) -> None:
    assert spaces_named_in("report/cells.py", line)
    assert not spaces_named_in("report/cells.py", "definition_of(cell.space).form(cell); isinstance(cell, str)")


def test_classes_channels_and_size_of_images_go_together() -> None:
    """Nobody takes the three apart from one another: that is an `ImageSpec`."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {one.arg for one in (*node.args.args, *node.args.kwonlyargs)}
                assert not names >= {"image_channels", "image_size"}, f"{file}: {node.name}"
            if isinstance(node, ast.ClassDef):
                fields = {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
                assert not fields >= {"image_channels", "image_size"}, f"{file}: {node.name}"


LAZY = [file for file in sorted(PACKAGE.rglob("__init__.py")) if "lazy_names(" in file.read_text()]


@pytest.mark.parametrize("file", LAZY, ids=lambda file: file.parent.name)
def test_names_imported_on_first_use_are_those_that_type_checkers_see(file: Path) -> None:
    package = ".".join(("smallgroup", *file.parent.relative_to(PACKAGE).parts))
    branch = next(node for node in ast.parse(file.read_text()).body if isinstance(node, ast.If))
    seen = {
        (node.module or "").removeprefix(f"{package}."): [alias.name for alias in node.names]
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
    }
    call = branch.orelse[0]
    assert isinstance(call, ast.Assign)
    assert isinstance(call.value, ast.Call)
    assert ast.literal_eval(call.value.args[1]) == seen
    module = import_module(package)
    assert {name for names in seen.values() for name in names} <= set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"}
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__"}
UNSAFE_CALLS = {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen"}
UNSAFE_CALLS |= {"torch.load", "torch.export.load", "torch.jit.load", "np.load", "numpy.load"}
ALLOWED = {
    # What it has made itself a moment ago, and never left memory.
    "exporters/pt2.py": ["torch.export.load"],
}


def unsafe_in(text: str) -> list[str]:
    """What in a program can be made to run code by the file or text that it reads."""
    found = []
    for node in ast.walk(ast.parse(text)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [name for name in modules if name.split(".")[0] in UNSAFE_MODULES]
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [name for alias in node.names if (name := f"{node.module}.{alias.name}") in UNSAFE_CALLS]
        if not isinstance(node, ast.Call):
            continue
        name, options = ast.unparse(node.func), {each.arg: ast.unparse(each.value) for each in node.keywords}
        safe = name == "torch.load" and options.get("weights_only") == "True"
        if (name in UNSAFE_NAMES | UNSAFE_CALLS and not safe) or name.split(".")[0] in UNSAFE_MODULES:
            found.append(name)
        if options.get("shell") == "True" or options.get("allow_pickle") == "True":
            found.append(f"{name} with shell or allow_pickle")
    return found


def test_nothing_that_is_read_can_run_code() -> None:
    for file in sorted(PACKAGE.rglob("*.py")):
        assert unsafe_in(file.read_text()) == ALLOWED.get(file.relative_to(PACKAGE).as_posix(), []), file
    for file in sorted((PACKAGE.parent / "examples").glob("*.py")):
        assert unsafe_in(file.read_text()) == [], file


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "eval('1')",
        "exec(text)",
        "import torch\ntorch.load(path)",
        "torch.load(path, weights_only=False)",
        "yaml.load(text, yaml.Loader)",
        "from yaml import unsafe_load",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
        "__import__(name)",
    ],
)
def test_what_could_is_noticed(line: str) -> None:
    assert unsafe_in(line)
    assert not unsafe_in("torch.load(path, weights_only=True); yaml.safe_load(text); model.eval(); re.compile(text)")


PRINTS = {"print", "typer.echo", "typer.secho", "click.echo", "click.secho", "Console", "sys.stdout.write"}
PRINTS |= {"sys.stderr.write", "rich.print", "traceback.print_exc", "rich.console.Console"}
ALLOWED_TO_PRINT = {
    # The two places that make every text printable.
    "cli/output.py": {
        "typer.echo(printable(line), err=err)",
        "typer.echo(json.dumps(document, indent=2, ensure_ascii=True))",
    },
    # Our own words.
    "cli/app.py": {"typer.echo(f'smallgroup {__version__}')", "typer.echo(context.get_help())"},
    "cli/commands/bench.py": {"typer.echo(context.get_help())"},
}


def prints_in(text: str) -> set[str]:
    """Calls in a program that bring a text to the terminal."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {ast.unparse(call) for call in calls if ast.unparse(call.func) in PRINTS}


def test_commands_print_in_one_place() -> None:
    """What a command prints may be foreign, and who prints it elsewhere forgets that sooner or later."""
    for file in sorted([*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "display").rglob("*.py")]):
        assert prints_in(file.read_text()) <= ALLOWED_TO_PRINT.get(file.relative_to(PACKAGE).as_posix(), set()), file
    assert prints_in("print(name); console = Console()") == {"print(name)", "Console()"}


def test_foreign_text_is_escaped_once() -> None:
    """What `shown` gives has escapes, which `!r` would escape again; `quoted` does both."""
    twice = re.compile(r"\b(?:shown|printable)\([^{}]*!r\}")
    assert twice.search('f"class {shown(name)[:60]!r} is not"')
    assert [file for file in sorted(PACKAGE.rglob("*.py")) if twice.search(file.read_text())] == []
