"""The pages of runs: what lies in their folders, with what their configs say of it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smallgroup.config import CONFIG, Config, check_run, load_own, resolve
from smallgroup.report import CountedNetwork, Given, Run, SearchSteps, page, read_run
from smallgroup.report.page import drawn
from smallgroup.report.run import PARTS, RESULT, at, told_apart, whole
from smallgroup.runner.lock import held
from smallgroup.runner.place import FACTS
from smallgroup.runtime.files import write_whole
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.genotype import Genotype

if TYPE_CHECKING:
    from smallgroup.spaces.design import NetworkDesign

REPORT = "report.html"


def draw_report(*runs: Path | str, out: Path | str | None = None) -> Path:
    """Write the report of one run, or of several side by side, and return its path.

    Args:
        runs: their folders; a training within one is part of it.
        out: the file; None: `report.html` in the folder of the first.
    """
    made = page(read_runs(runs))
    place = Path(out) if out is not None else Path(runs[0]) / REPORT
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, made)
    return place


def read_runs(folders: Sequence[Path | str]) -> list[Run]:
    """Read everything that a report needs of some runs."""
    if not folders:
        raise ValueError("a report needs at least one run, but got none")
    return told_apart([read_one_run(Path(folder)) for folder in folders])


def live_page(folder: str, seen: str) -> dict[str, Any] | None:
    """Draw the page of a running or ended run, and return its changed parts; None if nothing changed since `seen`."""
    place = Path(folder)
    found = _look(place)
    if found == seen:
        return None
    run = read_one_run(place)
    made = drawn([run], live=True)
    version = sha256((made.main + json.dumps(made.data)).encode()).hexdigest()[:16]
    news = {"version": version, "state": run.state, "main": made.main, "data": made.data}
    return {"seen": found, "text": made.text, "news": news}


def _look(folder: Path) -> str:
    """Return a text that changes when the run does: names, sizes and times of files, and whether a process runs."""
    seen = []
    for place in (folder, *(folder / name for name in PARTS)):
        files = sorted(place.iterdir()) if place.is_dir() else []
        for file in files:
            if file.is_file() and not file.name.startswith(".") and file.name != REPORT:
                about = file.stat()
                seen.append(f"{file}:{about.st_size}:{about.st_mtime_ns}")
        seen.append(str(held(place)) if place.is_dir() else "")
    return sha256("\n".join(seen).encode(errors="surrogateescape")).hexdigest()


def read_one_run(folder: Path) -> Run:
    """Read a run's folder with its config, and the trainings within it."""
    check_run(folder)
    parts = {
        name: replace(read_one_run(folder / name), front=f"{name}/")
        for name in PARTS
        if (folder / name / CONFIG).is_file()
    }
    found = read_run(folder, parts=parts)
    return replace(found, given=(own := _given(found)), problems=(*found.problems, *own.problems))


def _given(run: Run) -> Given:
    """Return what the run's config gives; an unreadable config becomes a warning, the rest is still drawn."""
    if not (run.folder / CONFIG).exists():
        return Given()
    try:
        plain = load_own(run.folder / CONFIG)
        config = resolve(plain)
    except (ValueError, OSError) as error:
        return Given(problems=(f"{CONFIG} cannot be used: {error}",))
    made = plain.get("environment")
    problems: list[str] = []
    size = None if run.kind == "training" else _size(run, config, problems)
    environment = made if isinstance(made, dict) else {}
    steps = None if run.kind == "training" else _steps(run, config)
    about = config.to_dict(), config.departures(), config.of_recipe()
    return Given(*about, environment, size, steps, tuple(problems))


def _steps(run: Run, config: Config) -> SearchSteps | None:
    """Return the steps of the search that the config describes; None if the steps of an epoch are not known."""
    from smallgroup.phases.search.schedule import Course, schedule_of  # noqa: PLC0415

    per_epoch = config.search.steps_per_epoch or whole(at(run.facts, "course", "steps_per_epoch"))
    if not per_epoch:
        return None
    methods = [config.build_method(one) for one in config.learners]
    try:
        course = Course([schedule_of(config.search, per_epoch, config.teaching, method) for method in methods])
    except ValueError:
        return None
    return SearchSteps(course.steps, course.labeler_steps if config.search.labelers is None else 0)


def trained_network(run: Run) -> "tuple[Genotype, NetworkDesign]":
    """Return the cell and the network that a run trains or trained; raise an error that names the file without them."""
    training = run.parts.get("training")
    own = training if training is not None and training.result else run
    damaged = [] if training is None or own is training else _damage(training, RESULT)
    if not damaged and own.given.config:
        design = _design(own, resolve(own.given.config))
        if own.cell is not None and design is not None:
            return own.cell, design
    damaged += _damage(own, CONFIG, FACTS)
    missing = [f"there is no {name}" for name in (CONFIG, FACTS) if not (own.folder / name).exists()]
    raise ValueError("; ".join(damaged or missing) or f"{FACTS} must say what the images are like, but it does not")


def _damage(run: Run, *names: str) -> list[str]:
    """Return what is wrong with some files of a run."""
    return [f"{run.front}{problem}" for problem in run.problems if problem.startswith(names)]


def _design(run: Run, config: Config) -> "NetworkDesign | None":
    """Return the network that a config trains on the images of a run; None where they are not known."""
    image, classes = run.facts.get("image"), run.facts.get("classes")
    if run.cell is None or not isinstance(image, dict) or not isinstance(classes, list):
        return None
    try:
        images = ImageSpec(len(classes), image["channels"], image["size"])
        return config.training.network.design(images, run.cell.space)
    except KeyError as error:
        raise ValueError(f"{FACTS} must say what the images are like, but {error} is missing") from None
    except TypeError as error:
        raise ValueError(f"{FACTS} must say what the images are like, but {error}") from None


def _size(run: Run, config: Config, problems: list[str]) -> CountedNetwork | None:
    """Count the network that the config would train; None if the images are not known or it cannot be built."""
    try:
        design = _design(run, config)
        if run.cell is None or design is None:
            return None
        import torch  # noqa: PLC0415 -- takes seconds, and a config that is refused does not need it

        from smallgroup.spaces.count import multiply_adds, parameters  # noqa: PLC0415
        from smallgroup.spaces.networks import build_network  # noqa: PLC0415

        with torch.device("meta"):
            network = build_network(run.cell, design)
        cost = multiply_adds(network, design.images.size, design.images.channels)
        return CountedNetwork(parameters(network), cost, "as the config would train it")
    except ValueError as error:
        problems.append(f"the network that the config would train cannot be counted: {error}")
        return None


def draw_all(folder: Path, tell: Callable[[str], None]) -> None:
    """Draw the page of a run that has ended, and of the run that it is a part of."""
    for place in (folder, *_whole_run(folder)):
        _draw(place, tell)


def _draw(folder: Path, tell: Callable[[str], None]) -> None:
    """Draw the report at the end of a run; an error in it does not fail the run."""
    try:
        draw_report(folder)
    except Exception as error:
        tell(f"the report could not be drawn: {' '.join(str(error).split())[:200] or type(error).__name__}")


def _whole_run(folder: Path) -> list[Path]:
    """Return the run of which a training in this folder is a part: its page shows the training; none for others."""
    own = folder if folder.name else folder.absolute()
    return [own.parent] if own.name in PARTS and (own.parent / CONFIG).is_file() else []
