"""Files of keys: those that a user names, and those in folders of runs."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from smallgroup.data import DATASETS
from smallgroup.data.config import MADE
from smallgroup.keys.forms import part
from smallgroup.methods import METHODS
from smallgroup.migrations import migrated
from smallgroup.registry import is_imported
from smallgroup.runner.lock import FILE as LOCK
from smallgroup.runner.place import METRICS
from smallgroup.runtime.files import read_regular
from smallgroup.runtime.plain_yaml import NotTakenError, parsed
from smallgroup.runtime.text import quoted, shown
from smallgroup.spaces import SPACES

CONFIG = "config.yaml"
"""Name of the config in the folder of a run."""
DATA = ("dataset", "unlabeled")
"""Keys whose value is the name of a dataset."""
LARGEST = 200_000
"""Most bytes of a config file; to parse as many takes seconds."""


class NotRegisteredError(ValueError):
    """A run's own config that names what a plugin registers, and the plugin is not imported."""


def load(path: Path) -> dict[str, Any]:
    """Read the keys of a YAML file that a user names; a link or a pipe will do."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"a config file has at most {LARGEST:,} bytes, but {path} has more")
    return _keys(content, path)


def keys_of_any(config: object) -> Mapping[str, Any]:
    """Return the keys of a config given as keys or as the path of a YAML file; None has no keys."""
    if isinstance(config, str | Path) and Path(config).exists():
        return load(Path(config))
    if config is None or isinstance(config, Mapping):
        return config or {}
    got = f"there is no file {quoted(config)}" if isinstance(config, str | Path) else f"got {str(config)[:60]!r}"
    raise ValueError(f"a config must be a Config, a dictionary of keys or the path of a YAML file, but {got}")


def load_own(path: Path) -> dict[str, Any]:
    """Read the keys of a run's own file, which an earlier version may have written.

    Plugins that it names are not imported: a folder may come from anywhere. Without what they register it is refused.
    """
    keys = migrated(_keys(read_regular(path, LARGEST), path))
    plugins = plugins_in(keys)
    if unknown := _not_registered(keys):
        which = " ".join(f"--plugin {shown(name)}" for name in plugins) or "--plugin MODULE"
        raise NotRegisteredError(
            f"{shown(path)} needs {unknown}, which is not registered here; name the plugin that registers it with "
            f"{which}"
        )
    return {**keys, "plugins": [name for name in plugins if is_imported(name)]}


def plugins_in(keys: Mapping[str, Any]) -> list[str]:
    """Return the plugins that keys name; what else there may be in their place is left to the reader."""
    named = keys.get("plugins")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list | tuple) else []


def check_run(folder: Path) -> None:
    """Refuse a folder in which no run was begun."""
    if not any((folder / name).exists() for name in (CONFIG, METRICS, LOCK)):
        raise ValueError(f"a run is a folder with {CONFIG} and {METRICS}, but {folder} has neither")


def _not_registered(keys: Mapping[str, Any]) -> str | None:
    """Return a name in a config that no registry has; a damaged file may have anything in place of a name."""
    learners, options = keys.get("learners"), keys.get("methods")
    learners = learners if isinstance(learners, list) else []
    spaces = [keys.get("space"), *(part(learner, "space", None) for learner in learners)]
    named: list[tuple[str, Collection[str], list[object]]] = [
        ("method", METHODS, [part(learner, "method", None) for learner in learners]),
        ("method", METHODS, list(options) if isinstance(options, dict) else []),
        ("space", SPACES, [part(space, "name", None) for space in spaces]),
        ("dataset", {*DATASETS, *MADE}, [str(part(keys.get("data"), key, "train")).partition(":")[0] for key in DATA]),
    ]
    for kind, known, names in named:
        for name in names:
            if isinstance(name, str) and name not in known:
                return f"{kind} {quoted(name[:60])}"
    return None


def _keys(content: bytes, path: Path) -> dict[str, Any]:
    try:
        given = parsed(content)
    except NotTakenError as error:
        raise ValueError(f"{path}, line {error.line}: {error}") from None
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = "" if place is None else f", line {place.line + 1}"
        raise ValueError(f"a config must be YAML, but {path}{where} is not") from None
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ValueError(f"a config must be keys and values, but {path} is not")
    return given
