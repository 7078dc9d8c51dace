"""One room per concern, and imports go downwards only."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import smallgroup

PACKAGE = Path(smallgroup.__file__).parent
FLOORS = [
    ["testing"],
    ["cli"],
    ["study", "bench"],
    ["pipeline"],
    ["fitting"],
    ["api"],
    ["display", "pages", "places"],
    ["config"],
    ["report"],
    ["phases"],
    ["runner"],
    ["group", "methods"],
    ["spaces", "data", "recipes"],
    ["kernels", "registry"],
    ["runtime", "statistics", "migrations"],
]
"""From the top; rooms of one floor do not know each other."""
ROOMS = sorted(path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py")
ROOMS = [name for name in ROOMS if not name.startswith("_")]


def test_every_room_has_a_floor() -> None:
    assert sorted(room for floor in FLOORS for room in floor) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_floors_below_alone(room: str) -> None:
    floor = next(i for i, rooms in enumerate(FLOORS) if room in rooms)
    below = {other for rooms in FLOORS[floor + 1 :] for other in rooms} | {room}
    place = PACKAGE / room
    for file in place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom) and node.module == "smallgroup":
                names = [f"smallgroup.{alias.name}" for alias in node.names if not alias.name.startswith("_")]
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                parts = (name or "").split(".")
                if parts[0] == "smallgroup" and len(parts) > 1:
                    assert parts[1] in below, f"{file} imports {name}"


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
    "phases/training/export.py": ["torch.export.load"],
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
    "cli/bench.py": {"typer.echo(context.get_help())"},
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
