"""Names by decorator, entry point and plugin."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path
from typing import ClassVar

import pytest

from smallgroup import registry
from smallgroup.exporters import EXPORTERS, Exporter
from smallgroup.methods import METHODS, Darts, Method
from smallgroup.registry import PluginError, Registry, import_plugins, imported_plugins


class Good(Method):
    """It is good. And more."""

    name: ClassVar[str] = "good"


@pytest.fixture
def methods() -> Registry[Method]:
    built_in = {"darts": "smallgroup.methods.darts:Darts"}
    return Registry("method", "smallgroup.tests", "smallgroup.methods.method:Method", built_in)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Plugins and modules of a test are those of that test."""
    modules, path, plugins = set(sys.modules), list(sys.path), dict(registry._PLUGINS)
    registered = dict(METHODS._registered)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path
    registry._PLUGINS.clear()
    registry._PLUGINS.update(plugins)
    METHODS._registered.clear()
    METHODS._registered.update(registered)
    registry._points.cache_clear()


def declare(folder: Path, lines: str, package: str = "theirs") -> None:
    """An installed package, as far as its entry points go."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[smallgroup.tests]\n{lines}\n")
    sys.path.insert(0, str(folder))
    invalidate_caches()
    registry._points.cache_clear()


def test_a_decorator_registers_a_class_under_its_name(methods: Registry[Method]) -> None:
    assert methods.register(Good) is Good
    assert list(methods) == ["darts", "good"]
    assert methods["good"] is Good
    assert methods["darts"] is Darts
    assert methods.about("good") == "It is good. And more."
    assert methods.added() == {"good": f"{__name__}:Good"}
    assert "better" not in methods
    with pytest.raises(ValueError, match=r"method must be one of darts, good, but got 'goood'; did you mean good\?"):
        methods.check_name("goood")


def test_a_name_belongs_to_one_class(methods: Registry[Method]) -> None:
    class Other(Method):
        name = "good"

    class Taken(Method):
        name = "darts"

    methods.register(Good)
    methods.register(type("Good", (Method,), {"name": "good", "__module__": __name__}))  # a cell of a notebook, again
    with pytest.raises(PluginError, match=r"a unique name, but 'good' is the name of tests\.test_registry:Good"):
        methods.register(Other)
    with pytest.raises(PluginError, match=r"but 'darts' is the name of smallgroup\.methods\.darts:Darts"):
        methods.register(Taken)
    assert methods["darts"] is Darts


def test_errors_call_a_class_by_its_kind() -> None:
    """With the article that the kind takes."""
    with pytest.raises(PluginError, match=r"^an exporter must have a unique name, but 'onnx' is the name of "):
        EXPORTERS.register(type("Onnx", (Exporter,), {"name": "onnx"}))


@pytest.mark.parametrize("name", ["", "Good", "good one", "gööd", "../good", "good\x1b", "x" * 61, 3, None])
def test_names_that_cannot_be_typed_are_refused(methods: Registry[Method], name: object) -> None:
    with pytest.raises(PluginError, match="lower-case letters, digits and hyphens"):
        methods.register(type("Bad", (Method,), {"name": name}))


def test_a_class_of_another_kind_is_refused(methods: Registry[Method]) -> None:
    with pytest.raises(PluginError, match=r"method 'good' must be a subclass of smallgroup\.methods\.method\.Method"):
        methods.register(type("Bad", (), {"name": "good"}))


def test_entry_points_are_listed_without_an_import(methods: Registry[Method], tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "from smallgroup.methods import Method\nclass Theirs(Method):\n    'Another.'\n    name = 'another'\n"
    )
    declare(tmp_path, "another = theirs:Theirs\nbroken = theirs:Nothing\nwrong = theirs:__doc__")
    assert list(methods) == ["darts", "another", "broken", "wrong"]
    assert "theirs" not in sys.modules
    assert methods["another"].__name__ == "Theirs"
    assert methods.about("another") == "Another."
    assert methods.added()["another"] == "theirs:Theirs"
    with pytest.raises(PluginError, match=r"method 'broken' must be importable, but AttributeError: .*Nothing"):
        methods["broken"]
    with pytest.raises(PluginError, match="method 'wrong' must be a subclass"):
        methods["wrong"]
    assert methods.about("broken").startswith("method 'broken' must be importable")
    assert [name for name, _ in methods.usable()] == ["darts", "another"]
    assert list(methods.problems()) == ["broken", "wrong"]
    assert methods.problems()["wrong"].startswith("method 'wrong' must be a subclass")


def test_packages_that_claim_one_name_are_refused_by_name(methods: Registry[Method], tmp_path: Path) -> None:
    declare(tmp_path / "one", "twice = one:Method\ndarts = one:Method", "one")
    declare(tmp_path / "other", "twice = other:Method", "other")
    with pytest.raises(PluginError, match=r"'twice' is the name of (one|other):Method and (one|other):Method"):
        methods["twice"]
    with pytest.raises(PluginError, match=r"'darts' is the name of smallgroup\.methods\.darts:Darts and one:Method"):
        methods["darts"]
    assert sorted(methods.problems()) == ["darts", "twice"]


def test_plugin_files_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would take the place of the first, or of a module that others import."""
    monkeypatch.chdir(tmp_path)
    text = "from smallgroup.methods import Method, register\n@register\nclass Mine(Method):\n    name = 'same-file'\n"
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "same_file.py").write_text(text)
    (tmp_path / "queue.py").write_text(text)
    import_plugins(["a/same_file.py"])
    with pytest.raises(PluginError, match=r"a unique name, but same_file\.py is also .*a/same_file\.py"):
        import_plugins(["b/same_file.py"])
    with pytest.raises(PluginError, match=r"queue\.py is also that of a module of Python"):
        import_plugins(["queue.py"])
    for package in ("torch", "scipy", "smallgroup"):
        (tmp_path / f"{package}.py").write_text(text)
        with pytest.raises(PluginError, match=rf"{package}\.py is also that of .*/{package}/__init__\.py"):
            import_plugins([f"{package}.py"])
    assert METHODS["same-file"].__module__ == "same_file"


def test_a_plugin_is_a_module_beside_the_user_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "from smallgroup.methods import Method, register\n@register\nclass One(Method):\n    name = {!r}\n"
    (tmp_path / "plugin_one.py").write_text(text.format("one"))
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "plugin_two.py").write_text(text.format("two"))
    import_plugins(["plugin_one", "away/plugin_two.py", "plugin_one"])
    assert METHODS["one"].__module__ == "plugin_one"
    assert METHODS["two"].__module__ == "plugin_two"
    assert str(tmp_path) not in sys.path
    # From another folder, as in another process, they are found by their paths.
    ours = imported_plugins()[-2:]
    assert ours == (str(tmp_path / "plugin_one.py"), str(tmp_path / "away" / "plugin_two.py"))
    monkeypatch.chdir("/")
    import_plugins(ours)
    assert METHODS["one"].__module__ == "plugin_one"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_plugin_anywhere", "must be importable, but ModuleNotFoundError: No module named"),
        ("missing.py", r"a file that ends in \.py, but there is no 'missing\.py'"),
        ("a; b", "a module or a file that ends in"),
        ("", "a module or a file that ends in"),
        ("falling", "plugin 'falling' must be importable, but ZeroDivisionError: division by zero"),
        ("half.py", "SyntaxError"),
        ("leaving", "plugin 'leaving' must be importable, but SystemExit: 0"),
        ("skipping", "plugin 'skipping' must be importable, but Skipped: no such package"),
        ("taken", "'darts' is the name of smallgroup"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_one_line(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "falling.py").write_text("1 / 0\n")
    (tmp_path / "half.py").write_text("def (\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    # Not an Exception: neither a test framework nor an event loop may end the command by a traceback.
    (tmp_path / "skipping.py").write_text("import pytest\npytest.skip('no such package', allow_module_level=True)\n")
    (tmp_path / "taken.py").write_text(
        "from smallgroup.methods import Method, register\n@register\nclass T(Method):\n    name = 'darts'\n"
    )
    before = imported_plugins()
    with pytest.raises(PluginError, match=words) as error:
        import_plugins([name])
    assert "\n" not in str(error.value)
    assert imported_plugins() == before
