"""The parts of a whole run: search, training, baselines and controls, each begun, resumed or only read."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from smallgroup import api
from smallgroup.api import PLAY_OFF
from smallgroup.baseline_names import BASELINES, Baseline
from smallgroup.config import CONFIG, Config, load_own, resolve
from smallgroup.controls import TrainedArm, train_controls
from smallgroup.display.display import Display
from smallgroup.display.search import SearchDisplay
from smallgroup.display.training import TrainingDisplay
from smallgroup.exporters.latency import measure
from smallgroup.fitting import network_for_steps, search_within, training_within, with_network
from smallgroup.jobs import training_data_of
from smallgroup.pages import draw_all
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training import GroupCells, TrainResult
from smallgroup.phases.training.latency import Latencies
from smallgroup.phases.training.place import TRAINING
from smallgroup.phases.training.result import read_wrong
from smallgroup.phases.training.size import filling_limits, of_same_cost
from smallgroup.pipeline.plan import RunPlan
from smallgroup.pipeline.result import BaselineComparison, RunResult
from smallgroup.places import PLAN, check_for_run
from smallgroup.runner import Watcher
from smallgroup.runtime import stream
from smallgroup.runtime.budget import Budget
from smallgroup.runtime.durations import written
from smallgroup.runtime.files import check_not_link, write_whole
from smallgroup.spaces import definition_of
from smallgroup.spaces.choices import known_genotype, random_genotype
from smallgroup.spaces.config import own_defaults
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


@dataclass
class RunParts:
    """One run, part by part. Each part starts, resumes or returns its result, depending on its folder."""

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
    latencies: Latencies = field(default_factory=lambda: Latencies(measure))
    """Latencies of all networks that were measured for a limit on latency."""

    def begun(self) -> RunPlan | None:
        """Return the plan of the run to resume; None for a new run."""
        check_for_run(self.folder)
        for name in (PLAY_OFF, TRAINING, *BASELINES):
            check_not_link(self.folder / name)
        return RunPlan.read(self.folder) if self.resume and (self.folder / CONFIG).exists() else None

    def carry_out(self, plan: RunPlan | None, asked: RunPlan) -> RunResult:
        """Carry out all parts by the plan of a begun run, or by what is asked of a new one."""
        budget = None
        if plan is not None:
            self._take_up_sizes(plan)
            self.latencies.known |= plan.latencies or {}
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
        results = {name: self._beside(name, own, found.seed, plan) for name in plan.baselines}
        comparisons = [BaselineComparison(name, self._compared(name, own, result)) for name, result in results.items()]
        fills = "resnet" in results and self.config.training.limits.on_memory
        result = RunResult(found, own, results, comparisons, arms, resnet_fills_limits=fills)
        verdicts = [each.to_dict() for each in comparisons]
        write_whole(self.folder / VERDICT, json.dumps({"schema": 1, "verdicts": verdicts}, indent=2) + "\n")
        draw_all(self.folder, self.tell)  # the page of the last training was drawn before there was a verdict
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
        """Take the length of an interrupted search from its folder: its time budget set it, not the config."""
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
        """Return the time left for the trainings; of a resumed run, what the search left of the whole budget."""
        if plan.seconds is None or budget is not None:
            return budget
        return Budget(max(0.0, OVERHEAD * plan.seconds - plan.measuring_seconds - found.seconds), plan.clock)

    # The trainings.

    def _sized(self, cell: Genotype, plan: RunPlan, budget: Budget | None) -> Config:
        """Return the config of the training of a cell: as long and as large as its part of the time allows.

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
            self.tell(f"search and play-off took longer than planned: each training still gets {written(least)}")
            budget = Budget(least * plan.trainings, budget.clock)
        sized = training_within(config, cell, budget, 1 / plan.trainings, latencies=self.latencies)
        chosen = replace(plan, training=sized.to_dict()["training"], latencies=dict(self.latencies.known) or None)
        write_whole(self.folder / PLAN, chosen.dumps())
        return sized

    def _beside(self, name: Baseline, own: TrainResult, seed: int, plan: RunPlan) -> TrainResult:
        """Train a baseline with the settings and the length of the found network.

        It has the same multiply-adds; under limits in KB a ResNet is the largest that fits, within a time budget the
        largest that takes no longer than the found network.
        """
        space = own.space
        cell = random_genotype(space, stream(seed, "random cell")) if name == "random" else known_genotype(name, space)

        def config() -> Config:
            base = resolve(load_own(self.folder / TRAINING / CONFIG))
            base = resolve({**base.to_dict(), "space": {"name": cell.space}})
            network = base.training.network
            if cell.space != space:  # such as a ResNet beside a network of a space that has none: its own skeleton
                network = network.model_copy(update=own_defaults(definition_of(cell.space).network_config))
            images, limits = training_data_of(base).dataset.spec, base.training.limits
            if name == "resnet" and limits.on_memory:
                if plan.seconds is None:
                    sized = filling_limits(cell, network, limits, images, self.latencies)
                else:
                    begun, seconds = with_network(base, network), own.seconds
                    sized = network_for_steps(
                        begun, cell, self.latencies, steps=own.steps, seconds=seconds, clock=plan.clock
                    )
            else:
                sized = of_same_cost(cell, network, own.multiply_adds, images)
            return with_network(base, sized)

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
                latencies=self.latencies.known,
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
