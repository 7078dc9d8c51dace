"""What the command line asks for, out of options, a file and the folder of a run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from smallgroup import registry
from smallgroup.cli.wanted import Wanted
from smallgroup.config import CONFIG, resolve
from smallgroup.methods import METHODS

METHOD = "from smallgroup.methods import Method, register\n@register\nclass Own(Method):\n    name = {!r}\n"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Plugins of a test are those of that test."""
    plugins, registered = dict(registry._PLUGINS), dict(METHODS._registered)
    yield
    for name in [name for name in sys.modules if name.startswith("wanted_")]:
        del sys.modules[name]
    for known, before in ((registry._PLUGINS, plugins), (METHODS._registered, registered)):
        known.clear()
        known.update(before)  # type: ignore[arg-type]


def asked(config: Path, *plugins: str, out: Path | None = None) -> Wanted:
    options = {"plugins": list(plugins)} if plugins else {}
    return Wanted(options, (), config, out, None, None, resume=out is not None, allow_drift=False)


def test_plugins_of_options_are_added_to_those_of_the_file(tmp_path: Path) -> None:
    one, two, config = (tmp_path / name for name in ("wanted_one.py", "wanted_two.py", "keys.yaml"))
    one.write_text(METHOD.format("wanted-one"))
    two.write_text(METHOD.format("wanted-two"))
    config.write_text(f"plugins: [{one}]\nlearners: [{{method: wanted-one}}, {{method: wanted-two}}]\n")
    found = asked(config, str(two), str(one)).resolved({})
    assert found.plugins == (str(one), str(two))
    assert [learner.method for learner in found.learners] == ["wanted-one", "wanted-two"]


def test_plugins_of_the_file_are_imported_before_the_folder_of_a_run_is_read(tmp_path: Path) -> None:
    own, config = tmp_path / "wanted_three.py", tmp_path / "keys.yaml"
    own.write_text(METHOD.format("wanted-three"))
    config.write_text(f"plugins: [{own}]\nmethod: wanted-three\n")
    plain = resolve({}).to_dict()
    run = {**plain, "plugins": [str(own)], "learners": [{"method": "wanted-three"}]}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / CONFIG).write_text(yaml.safe_dump(run))
    found = asked(config, out=tmp_path / "run").resolved({}, tmp_path / "run")
    assert found.learners[0].method == "wanted-three"
