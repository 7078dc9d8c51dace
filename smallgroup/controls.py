"""Controls of networks that were trained as a group: what they are worth without peers, at stated cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from smallgroup import api
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.display.display import Display
from smallgroup.display.training import TrainingDisplay
from smallgroup.phases.training import GroupCells, TrainResult
from smallgroup.phases.training.latency import read_latencies
from smallgroup.phases.training.result import read_wrong
from smallgroup.runner import Watcher
from smallgroup.runtime.files import check_not_link
from smallgroup.spaces.genotype import Genotype
from smallgroup.statistics.same_images import ImageComparison, compare_on_images

FOLDER = "controls"
"""Within that of the group's training."""
CONTROLS = {
    "labels-alone": "the same networks, each on human labels alone",
    "self-taught": "the same networks, each taught by its own labels",
    "one-network": "the network that was kept, alone on human labels, for as many passes",
}


@dataclass(frozen=True)
class TrainedArm:
    """A training beside others: the group, or one of its controls."""

    name: str
    result: TrainResult
    passes: float
    """Forward passes of an image in the whole training; a backward pass counts as two."""
    compared: ImageComparison | None = None
    """The group against this control on the same test images, one training of each; None where there are none."""

    @property
    def mean_test_error(self) -> float | None:
        """Over all networks of the group, those included that were not kept."""
        errors = [one["test_error"] for one in self.result.group or []]
        known = [error for error in errors if error is not None]
        return fmean(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `--json` prints them."""
        compared = None if self.compared is None else {**asdict(self.compared), "verdict": self.compared.verdict}
        return {
            "name": self.name,
            "passes": self.passes,
            "mean_test_error": self.mean_test_error,
            "compared": compared,
            "result": self.result.to_dict(),
        }


def configs_of(config: Config) -> dict[str, Config]:
    """Return the config of each control of a group's training; all have the same labeled images."""
    own, training = config.training.group, config.training
    if own is None:
        raise ValueError("controls need a group training, but training.group is null")
    plain, alone = config.to_dict(), ["training.group.lambda=0"]
    one = resolve(plain, ["training.group.learners=1", *alone])
    assert one.training.group is not None
    longer = own.passes(training.batch_size) / one.training.group.passes(training.batch_size)
    return {
        "labels-alone": resolve(plain, alone),
        "self-taught": resolve(plain, ["training.group.targets=own"]),
        "one-network": resolve(one.to_dict(), [f"training.epochs={max(1, round(longer * training.epochs))}"]),
    }


@takes_data
def train_controls(
    folder: Path | str,
    *,
    resume: bool = False,
    allow_drift: bool = False,
    progress: bool = True,
    terse: bool = True,
    recorders: Callable[[Path], Sequence[Watcher]] = lambda _: (),
    data: OwnData | LabeledImages | None = None,  # noqa: ARG001 -- found by `takes_data`
) -> list[TrainedArm]:
    """Train the controls of a finished group training inside its folder; return the group's result first.

    Args:
        folder: that of the group's training.
        resume: continue controls that were started.
        allow_drift: resume even if the environment changed, so that results may differ.
        progress: show progress on standard error or in the notebook.
        terse: without a terminal, print one line per epoch and no introduction.
        recorders: given the folder of a control, more watchers for it.
        data: the images of your own that the group was trained on, as in `train`.
    """
    folder = Path(folder)
    config, result = resolve(load_own(folder / CONFIG)), TrainResult.read(folder)
    if result is None or result.group is None or result.retained is None:
        raise ValueError(f"controls need a finished group training, but {folder} has none")
    networks = GroupCells.read(folder).genotypes
    arms = [TrainedArm("group", result, _passes(config, result))]
    for name, own in configs_of(config).items():
        place = folder / FOLDER / name
        check_not_link(folder / FOLDER)
        check_not_link(place)
        cells: list[Genotype] = [networks[result.retained]] if name == "one-network" else list(networks)
        with _display(f"control {name}", progress=progress, terse=terse) as display:
            found = api.train(
                cells,
                own,
                out=place,
                resume=resume,
                allow_drift=allow_drift,
                watcher=display,
                recorders=recorders(place),
                progress=progress,
                latencies=read_latencies(folder),
            )
        arms.append(TrainedArm(name, found, _passes(own, found), _compared(folder, place)))
    return arms


def _passes(config: Config, result: TrainResult) -> float:
    own = config.training.group
    assert own is not None
    return result.steps * own.passes(config.training.batch_size)


def _compared(folder: Path, other: Path) -> ImageComparison | None:
    first, second = read_wrong(folder), read_wrong(other)
    if first is None or second is None or len(first) != len(second):
        return None
    return compare_on_images(first, second)


@contextmanager
def _display(title: str, *, progress: bool, terse: bool) -> Iterator[Display | None]:
    if not progress:
        yield None
        return
    with TrainingDisplay(title=title, terse=terse) as display:
        yield display


def table_of(arms: Sequence[TrainedArm]) -> list[tuple[str, ...]]:
    """Return the rows of a table of trainings side by side, its head first."""
    rows: list[tuple[str, ...]] = [
        ("", "test error %", "mean of networks", "validation loss", "networks", "steps", "passes", "group minus it")
    ]
    for arm in arms:
        own = arm.result
        kept: Mapping[str, Any] = (own.group or [{}])[own.retained or 0]
        difference = ""
        if arm.compared is not None:
            low, high = arm.compared.interval
            difference = f"{arm.compared.difference:+.2f} ({low:+.2f} to {high:+.2f})"
        rows.append(
            (
                arm.name,
                _number(own.test_error),
                _number(arm.mean_test_error),
                _number(kept.get("validation_loss"), 4),
                str(len(own.group or [])),
                f"{own.steps:,}",
                f"{arm.passes:,.0f}",
                difference,
            )
        )
    return rows


def _number(value: float | None, digits: int = 2) -> str:
    return "none" if value is None else f"{value:.{digits}f}"
