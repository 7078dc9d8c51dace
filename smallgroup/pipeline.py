"""The whole job: search, play-off, training from scratch, baselines beside it, and a verdict.

A time budget is for all of it. What each part may take is said before it begins, and written down: a run that is
interrupted goes on with the sizes it would have had.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from smallgroup import api
from smallgroup.api import PLAY_OFF
from smallgroup.baseline_names import BASELINES, DEFAULT_BASELINES, Baseline
from smallgroup.config import CONFIG, Config, load_own, long_form, resolve
from smallgroup.controls import CONTROLS, TrainedArm, train_controls
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.display.display import Display
from smallgroup.display.search import SearchDisplay
from smallgroup.display.training import TrainingDisplay
from smallgroup.fitting import search_within, training_within
from smallgroup.jobs import training_data_of
from smallgroup.phases.search.config import AnswerRule
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.shown import Scalar, ShownResult
from smallgroup.phases.training import GroupCells, TrainResult
from smallgroup.phases.training.place import TRAINING
from smallgroup.phases.training.result import read_wrong
from smallgroup.phases.training.size import filling_limits, of_same_cost
from smallgroup.places import PLAN, check_for_run
from smallgroup.report import notebook
from smallgroup.runner import Watcher, check_identity
from smallgroup.runtime import stream
from smallgroup.runtime.budget import Budget, Clock
from smallgroup.runtime.checks import check_choice
from smallgroup.runtime.durations import written
from smallgroup.runtime.files import check_not_link, read_regular, write_whole
from smallgroup.spaces import definition_of
from smallgroup.spaces.choices import known_genotype, random_genotype
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import FILE, read
from smallgroup.statistics.same_images import ImageComparison, compare_on_images

VERDICT = "verdict.json"
SEARCH_SHARE = 0.12
"""The most of a time budget that a search takes. In minutes, more training is worth more than a better cell."""
PLAY_OFF_SHARE = 0.1
"""The part of what the search leaves that goes to the play-off; the trainings share the rest equally."""
LEAST_SHARE = 0.5
"""The part of a time budget that the trainings get in any case, should what comes before them take too long."""
OVERHEAD = 0.95
"""The part of a time budget that is shared out; checkpoints, pages and measuring take the rest."""


@dataclass(frozen=True)
class RunPlan:
    """What a run was asked for beside its config."""

    seconds: float | None
    """The time budget; None: none."""
    clock: Clock
    baselines: tuple[Baseline, ...]
    controls: bool = False
    """Whether the controls of a group's training are trained too."""
    search_seconds: float | None = None
    """What the search was expected to take when its length was chosen."""
    measuring_seconds: float = 0.0
    """What choosing it took of the budget."""
    training: dict[str, Any] | None = None
    """The section of the config for the network found, once a budget has decided its size."""

    @staticmethod
    def read(folder: Path) -> "RunPlan | None":
        """The plan of a begun run; None if there is none."""
        try:
            content = read_regular(folder / PLAN, 100_000)
        except FileNotFoundError:
            return None
        try:
            return _PLAN.validate_json(content)
        except ValueError:
            raise ValueError(f"{folder / PLAN} must be the plan of a run, but it is not") from None

    def dumps(self) -> str:
        """The text of the file."""
        return json.dumps(asdict(self)) + "\n"

    @property
    def trainings(self) -> int:
        """The found network, the baselines and the controls; two of these take as long as the group, one less."""
        return 1 + len(self.baselines) + (len(CONTROLS) if self.controls else 0)


_PLAN = TypeAdapter(RunPlan)


@dataclass(frozen=True)
class BaselineComparison:
    """The found network against a baseline, on the same test images, with one training of each."""

    baseline: Baseline
    comparison: ImageComparison | None
    """None where there are no test images, or the trainings differ in length."""

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        name = BASELINES[self.baseline]
        if self.comparison is None:
            return f"The network found and {name} cannot be compared."
        found, (low, high) = self.comparison, self.comparison.interval
        words = {"better": "is better than", "worse": "is worse than", "not told apart": "is not told apart from"}
        side = "lower" if found.difference <= 0 else "higher"
        return (
            f"The network found {words[found.verdict]} {name}: its test error is {abs(found.difference):.2f} points "
            f"{side} (95 % interval {low:+.2f} to {high:+.2f}; {found.images:,} test images, one seed)."
        )

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the file."""
        found = self.comparison
        verdict = None if found is None else found.verdict
        return {
            "baseline": self.baseline,
            "verdict": verdict,
            "sentence": self.sentence,
            **({} if found is None else asdict(found)),
        }


@dataclass(frozen=True)
class RunResult(ShownResult):
    """What a whole run has come to."""

    search: SearchResult
    training: TrainResult
    baselines: Mapping[Baseline, TrainResult]
    comparisons: Sequence[BaselineComparison]
    controls: Sequence[TrainedArm] = ()
    """Of networks trained as a group: the group, then each of its controls."""
    resnet_fills_limits: bool = False
    """Whether the ResNet is the largest within limits in KB, and not one of the same multiply-adds."""

    @property
    def history(self) -> tuple[dict[str, Scalar], ...]:
        """The metrics of all parts; `part` is `search`, `training` or the name of a baseline."""
        parts: list[tuple[str, ShownResult]] = [
            ("search", self.search),
            (TRAINING, self.training),
            *self.baselines.items(),
        ]
        return tuple({"part": name, **row} for name, result in parts for row in result.history)

    def plot(self) -> Any:  # noqa: ANN401 -- matplotlib is imported when it is needed
        """Return a figure of the training curves of all networks, and of their test errors and multiply-adds."""
        return notebook.compare_trainings([("network found", self.training), *self.baselines.items()])

    def _repr_html_(self) -> str:
        return notebook.html_of_run([each.sentence for each in self.comparisons], self.training, self.search)

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "search": self.search.to_dict(),
            "training": self.training.to_dict(),
            "baselines": {name: result.to_dict() for name, result in self.baselines.items()},
            "verdict": [each.to_dict() for each in self.comparisons],
            **({"controls": [arm.to_dict() for arm in self.controls[1:]]} if self.controls else {}),
        }


@takes_data
def run(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    out: Path | str | None = None,
    seconds: float | None = None,
    clock: Clock = "wall",
    baselines: Sequence[Baseline] | None = None,
    controls: bool | None = None,
    resume: bool = False,
    allow_drift: bool = False,
    progress: bool = True,
    terse: bool = True,
    say: Callable[[str], None] | None = None,
    recorders: Callable[[Path], Sequence[Watcher]] | None = None,
    before_training: Callable[[], None] | None = None,
    answer: AnswerRule | None = None,
    data: OwnData | LabeledImages | None = None,
) -> RunResult:
    """Search a cell, train it from scratch, train baselines beside it, and say how they compare.

    Args:
        config: what to search and how to train, as in `search`.
        out: the run's folder; None: nothing is kept but the result.
        seconds: a time budget for everything; None: the lengths of the config.
        clock: what the budget is measured by, the clock on the wall or the CPU time of this process.
        baselines: networks beside the found one, see `BASELINES`; None: a ResNet and a random cell.
        controls: where `training.group` trains several networks, train its controls too; see `smallgroup.controls`.
            None: as the run was begun, else none.
        resume: go on with the run in that folder, with the budget and the baselines it was begun with.
        allow_drift: resume even where the same bits cannot be promised.
        progress: show progress on standard error or in the notebook.
        terse: a line per epoch where there is no terminal, and no introductions.
        say: who is told how a time budget is shared.
        recorders: for the folder of each part, who else is told how it goes.
        before_training: called when the cell is known and its training is about to begin.
        answer: how the group answers, in place of `search.answer`. None: as the config says, and in a run of the recipe
            quick that does not say it, by a play-off.
        data: images of your own, as in `search`.
    """
    for baseline in baselines or ():
        check_choice("baseline", baseline, tuple(BASELINES))
    asked = api.on_data(config, data)
    given = {} if isinstance(asked, Config) else asked
    resolved = asked if isinstance(asked, Config) else resolve(given)
    if answer is None and says_answer(given):
        answer = resolved.search.answer
    if resume and out is not None and (Path(out) / CONFIG).exists():
        begun = resolve(load_own(Path(out) / CONFIG))
        check_identity(resolved.of_training(), begun.of_training())  # of the search, where it goes on
        rule = begun.search.answer
        if answer not in (None, rule):
            raise ValueError(f"a run keeps the answer that it began with, {rule}, but got {answer}")
        answer = rule
    resolved = _answering(resolved, answer)
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as name:
        job = _Run(Path(name), resolved, resume=resume, allow_drift=allow_drift, progress=progress, terse=terse)
        job.tell, job.recorders = say or job.tell, recorders or job.recorders
        job.before_training = before_training or job.before_training
        chosen = DEFAULT_BASELINES if baselines is None else tuple(baselines)
        plan = job.begun()
        if plan is not None and baselines is not None and chosen != plan.baselines:
            raise ValueError(
                f"a run keeps the baselines that it began with, {_listed(plan.baselines)}, but got {_listed(chosen)}"
            )
        if controls and resolved.training.group is None:
            raise ValueError("controls are those of networks trained as a group, but training.group is null")
        if plan is not None and controls is not None and controls != plan.controls:
            raise ValueError("a run keeps the controls that it began with, but got others")
        return job.carry_out(plan, RunPlan(seconds, clock, chosen, controls=bool(controls)))


def says_answer(given: Mapping[str, Any]) -> bool:
    """Whether keys, as a user gives them, say how the group answers."""
    return "answer" in (long_form(given).get("search") or {})


def _answering(config: Config, answer: AnswerRule | None) -> Config:
    """The config with the rule by which the group answers."""
    if answer is None:
        undecided = config.recipe == "quick" and config.search.answer == "retained"
        answer = "play-off" if undecided else config.search.answer
    return config.model_copy(update={"search": config.search.model_copy(update={"answer": answer})})


def _listed(baselines: Sequence[Baseline]) -> str:
    return ", ".join(baselines) or "none"


@dataclass
class _Run:
    """One run, part by part. Each part begins, goes on or gives its result, whatever there is in its folder."""

    folder: Path
    config: Config
    resume: bool
    allow_drift: bool
    progress: bool
    terse: bool
    tell: Callable[[str], None] = lambda _: None
    recorders: Callable[[Path], Sequence[Watcher]] = lambda _: ()
    before_training: Callable[[], None] = lambda: None
    files: Mapping[str, str] = field(default_factory=dict)
    """What is written when the run begins."""

    def begun(self) -> RunPlan | None:
        """The plan of the run to resume; None if it is a new one."""
        check_for_run(self.folder)
        for name in (PLAY_OFF, TRAINING, *BASELINES):
            check_not_link(self.folder / name)
        return RunPlan.read(self.folder) if self.resume and (self.folder / CONFIG).exists() else None

    def carry_out(self, plan: RunPlan | None, asked: RunPlan) -> RunResult:
        budget = None
        if plan is not None:
            self._take_up_sizes(plan)
        else:
            budget = None if asked.seconds is None else Budget(OVERHEAD * asked.seconds, asked.clock)
            plan = self._shared_out(asked, budget)
        found = self._search()
        budget = self._rest(plan, budget, found)
        cell = read(self.folder / FILE, links=False)[0]
        self.before_training()
        group = self.config.training.group
        # Of a group with as many networks as the search has learners, each has the cell of one of them.
        named = cell if group is None else GroupCells.of([self.folder], group.learners).genotypes
        own = self._train(named, TRAINING, lambda: self._sized(cell, plan, budget))
        arms = self._train_controls() if plan.controls else []
        results = {name: self._beside(name, own, found.seed) for name in plan.baselines}
        comparisons = [BaselineComparison(name, self._compared(name, own, result)) for name, result in results.items()]
        fills = "resnet" in results and self.config.training.limits.on_memory
        result = RunResult(found, own, results, comparisons, arms, resnet_fills_limits=fills)
        verdicts = [each.to_dict() for each in comparisons]
        write_whole(self.folder / VERDICT, json.dumps({"schema": 1, "verdicts": verdicts}, indent=2) + "\n")
        return result

    # The search.

    def _shared_out(self, asked: RunPlan, budget: Budget | None) -> RunPlan:
        """Fit the search into its share of the time, and write down what was asked for."""
        api.check_place(self.folder, self.config, resume=self.resume)  # before its steps are measured
        plan = asked
        if budget is not None:
            fitted = search_within(self.config, budget, SEARCH_SHARE)
            measuring = OVERHEAD * asked.seconds - budget.left if asked.seconds is not None else 0.0
            plan = replace(asked, search_seconds=fitted.seconds, measuring_seconds=measuring)
            self.config = fitted.config
            left = max(0.0, budget.left - fitted.seconds)
            parts = [f"search {written(fitted.seconds)}"]
            if self.config.search.answer == "play-off":
                play_off = PLAY_OFF_SHARE * left
                self.config = resolve(self.config.to_dict(), [f"playoff.seconds={play_off:.3f}"])
                parts.append(f"play-off {written(play_off)}")
                left -= play_off
            each = left / plan.trainings
            parts.append(f"training {written(each)}" + (" each" if plan.baselines else ""))
            beside = "" if not plan.baselines else f": the network found and {', '.join(plan.baselines)}"
            self.tell(f"time: {', '.join(parts)}{beside}")
        self.files = {PLAN: plan.dumps()}
        return plan

    def _take_up_sizes(self, plan: RunPlan) -> None:
        """A begun search has the length that its time budget gave it, whatever the config says that is given again."""
        if plan.seconds is None:
            return
        own = resolve(load_own(self.folder / CONFIG))
        length = {name: getattr(own.search, name) for name in ("epochs", "steps_per_epoch")}
        search = self.config.search.model_copy(update=length)
        playoff = self.config.playoff.model_copy(update={"seconds": own.playoff.seconds})
        self.config = self.config.model_copy(update={"search": search, "playoff": playoff})

    def _search(self) -> SearchResult:
        with self._display(SearchDisplay, "search") as display:
            return api.search(
                self.config,
                out=self.folder,
                resume=self.resume,
                allow_drift=self.allow_drift,
                watcher=display,
                recorders=self.recorders(self.folder),
                progress=self.progress,
                files=self.files,
            )

    def _rest(self, plan: RunPlan, budget: Budget | None, found: SearchResult) -> Budget | None:
        """What is left for the trainings; of a resumed run, what the search did not take of the whole budget."""
        if plan.seconds is None or budget is not None:
            return budget
        return Budget(max(0.0, OVERHEAD * plan.seconds - plan.measuring_seconds - found.seconds), plan.clock)

    # The trainings.

    def _sized(self, cell: Genotype, plan: RunPlan, budget: Budget | None) -> Config:
        """The config of the training of a cell: as long and as large as its part of the time allows.

        The choice is written down at once: it is kept if the run is interrupted before the training begins.
        """
        keys = {**load_own(self.folder / CONFIG), "space": {"name": cell.space}}
        if plan.training is not None:
            return resolve({**keys, "training": plan.training})
        config = resolve(keys)
        if budget is None or plan.seconds is None:
            return config
        least = LEAST_SHARE * OVERHEAD * plan.seconds / plan.trainings
        if budget.left / plan.trainings < least:
            self.tell(
                f"search and play-off took longer than planned: the trainings get {written(least)} each all the same"
            )
            budget = Budget(least * plan.trainings, budget.clock)
        sized = training_within(config, cell, budget, 1 / plan.trainings)
        write_whole(self.folder / PLAN, replace(plan, training=sized.to_dict()["training"]).dumps())
        return sized

    def _beside(self, name: Baseline, own: TrainResult, seed: int) -> TrainResult:
        """Train a baseline with the settings and the length of the found network.

        It has the same multiply-adds; under limits in KB a ResNet is the largest that fits.
        """
        space = own.space
        cell = random_genotype(space, stream(seed, "random cell")) if name == "random" else known_genotype(name, space)

        def config() -> Config:
            base = resolve(load_own(self.folder / TRAINING / CONFIG))
            base = resolve({**base.to_dict(), "space": {"name": cell.space}})
            network = base.training.network
            if cell.space != space:  # such as a ResNet beside a network of a space that has none: its own skeleton
                network = network.model_copy(update=dict(definition_of(cell.space).short_training))
            images, limits = training_data_of(base).dataset.spec, base.training.limits
            if name == "resnet" and limits.on_memory:
                sized = filling_limits(cell, network, limits, images)
            else:
                sized = of_same_cost(cell, network, own.multiply_adds, images)
            return base.model_copy(update={"training": base.training.model_copy(update={"network": sized})})

        return self._train(cell, name, config)

    def _train_controls(self) -> list[TrainedArm]:
        return train_controls(
            self.folder / TRAINING,
            resume=self.resume,
            allow_drift=self.allow_drift,
            progress=self.progress,
            terse=self.terse,
            recorders=self.recorders,
        )

    def _train(self, cell: Genotype | Sequence[Genotype], name: str, config: Callable[[], Config]) -> TrainResult:
        """Train a cell in a folder of its own; the config of one that was begun is there."""
        folder = self.folder / name
        check_not_link(folder)
        begun = self.resume and (folder / CONFIG).exists()
        settings = resolve(load_own(folder / CONFIG)) if begun else config()
        title = "training" if name == TRAINING else f"baseline {name}"
        with self._display(TrainingDisplay, title) as display:
            return api.train(
                cell,
                settings,
                out=folder,
                resume=self.resume,
                allow_drift=self.allow_drift,
                watcher=display,
                recorders=self.recorders(folder),
                progress=self.progress,
            )

    def _compared(self, name: Baseline, own: TrainResult, other: TrainResult) -> ImageComparison | None:
        wrong = [read_wrong(self.folder / place) for place in (TRAINING, name)]
        first, second = wrong
        if first is None or second is None or len(first) != len(second) or own.steps != other.steps:
            return None
        return compare_on_images(first, second)

    @contextmanager
    def _display(self, kind: type[SearchDisplay | TrainingDisplay], title: str) -> Iterator[Display | None]:
        if not self.progress:
            yield None
            return
        with kind(title=title, terse=self.terse) as display:
            yield display
