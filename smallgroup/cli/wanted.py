"""What the command line asks of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smallgroup.cli.durations import seconds_of
from smallgroup.config import CONFIG, Config, changed, load, load_own, overlaid, resolve
from smallgroup.keys.files import plugins_in
from smallgroup.places import RUNS, SEEDS, check_for_run, check_for_seeds, check_part, is_begun, nothing_to_resume
from smallgroup.registry import import_plugins
from smallgroup.runner.metrics import check_free
from smallgroup.runner.tensorboard import EVENTS, EventFiles, check_installed
from smallgroup.runner.watcher import Watcher
from smallgroup.runtime.files import check_not_link

_NOT_WHAT = ("data_root", "device", "on_nonfinite", "plugins")
"""Options that say where and how to run, and not what."""
_NOT_WHAT_CHANGES = ("run.", *(f"{name}=" for name in _NOT_WHAT), "data.data_root=")


@dataclass(frozen=True)
class Wanted:
    """The options of a command line."""

    options: Mapping[str, Any]
    changes: Sequence[str]
    config: Path | None
    out: Path | None
    seeds: str | None
    time_budget: str | None
    resume: bool
    allow_drift: bool

    tensorboard: bool = False

    base: Mapping[str, Any] = field(default_factory=dict)
    """Keys below all others, such as those of the search whose cell is trained."""

    files: dict[Path, dict[str, Any]] = field(default_factory=dict, repr=False)
    """The keys of files that were read."""

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.resume and self.out is None:
            raise ValueError("--resume needs the folder of the run, but --out is not given")
        if self.resume and self.time_budget is not None:
            raise ValueError("--time-budget is for new runs, but --resume continues a run whose size is fixed")
        if self.seeds is not None and ("seed" in self.options or any(c.startswith("seed=") for c in self.changes)):
            raise ValueError("--seed and --seeds cannot be combined, but got both")
        if self.time_budget is not None:
            seconds_of(self.time_budget)
        if self.tensorboard:
            check_installed()

    def recorders(self, folder: Path) -> list[Watcher]:
        """Return further watchers for a run in a folder."""
        if self.tensorboard:
            check_not_link(folder / EVENTS)
        return [EventFiles(folder / EVENTS)] if self.tensorboard else []

    def check_begun(self, folder: Path, say: Callable[[str], None]) -> None:
        """Say that there is no run to resume and a new one begins; refuse that unless it is known what to run."""
        if self.resume and not is_begun(folder):
            self._check_known(folder)
            say(f"there is nothing to resume in {folder}; starting a new run")

    def check_folder(self) -> None:
        """Refuse a folder that the run cannot have; most of it, before torch is loaded."""
        if self.out is None:
            return
        check_part(self.out)
        if self.resume and not is_begun(self.out):
            self._check_known(self.out)
        if self.seeds is not None:
            check_for_seeds(self.out)
            return
        check_for_run(self.out)
        if not self.resume:
            check_free(self.out)

    def _check_known(self, folder: Path) -> None:
        """Refuse to begin a run of which nothing is said."""
        if not self._says_what:
            raise nothing_to_resume(folder, "say what to run, such as --dataset, --method, --recipe or --config")

    @property
    def _says_what(self) -> bool:
        """Whether anything is given that a run would be known by; a folder that is misspelled is not."""
        named = any(key not in _NOT_WHAT for key in self.options)
        changed_ = any(not change.startswith(_NOT_WHAT_CHANGES) for change in self.changes)
        return named or changed_ or self.config is not None or bool(self.base)

    @property
    def seconds(self) -> float | None:
        """Return the seconds of the time budget; None: there is no budget."""
        return None if self.time_budget is None else seconds_of(self.time_budget)

    @property
    def _file(self) -> dict[str, Any]:
        """The keys of the file. It is read once, also where parts of this object are replaced: it may be a pipe.

        Its plugins are imported here, because the folder of a run that needs them may be read next.
        """
        if self.config is None:
            return {}
        if self.config not in self.files:
            keys = self.files[self.config] = load(self.config)
            import_plugins(plugins_in(keys))
        return self.files[self.config]

    def given(self) -> dict[str, Any]:
        """Return the keys that were asked for: changes over options over the file, and the plugins of both."""
        keys, options = self._file, dict(self.options)
        if "plugins" in options:
            options["plugins"] = list(dict.fromkeys([*plugins_in(keys), *options["plugins"]]))
        return changed(overlaid(keys, options), self.changes)

    def begun(self) -> Config | None:
        """Return the config of the run to resume, or that of all seeds; None if it is a new one."""
        if not self.resume or self.out is None:
            return None
        own = self.out / (CONFIG if self.seeds is None else SEEDS)
        return resolve(load_own(own)) if own.exists() else None

    def on_shared(self) -> "Wanted":
        """Return the same on the config of all seeds, where searches of several seeds are resumed."""
        shared = None if self.out is None else self.out / SEEDS
        found = self.resume and shared is not None and shared.exists()
        return replace(self, base=load_own(shared)) if found and shared is not None else self

    def resolved(self, options: Mapping[str, Any], folder: Path | None = None) -> Config:
        """Return the requested keys over the base or, when a run is resumed, over the config in its folder."""
        given = self.given()
        own = None if folder is None else folder / CONFIG
        keys = load_own(own) if self.resume and own is not None and own.exists() else dict(self.base)
        return resolve(overlaid(overlaid(keys, options), given))


def next_folder(*names: str) -> Path:
    """Return the first unused folder below runs/ with a name made of these words; of `folder:PATH` the first word."""
    name = "-".join(part.partition(":")[0] for part in names)
    number = 1
    while (folder := RUNS / f"{name}-{number:03d}").exists():
        number += 1
    return folder
