"""Several runs side by side; and what a group contributed, where the same run without teaching is there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smallgroup.report.curves import final
from smallgroup.report.run import Run, number_at, section_at, whole
from smallgroup.spaces.ground_truth import accuracy_on
from smallgroup.statistics import Comparison, compare_paired

NOT_COMPARED = ("training", "run", "environment")
"""Sections of a config that say nothing of a search."""
RunValue = Callable[[Run], float | None]
OF_TRAINING = ("seed", "data", "training")
"""What a test error depends on, beside the cell."""


@dataclass(frozen=True)
class RunPair:
    """A search with teaching and the same without: only lambda differs."""

    taught: Run
    alone: Run


@dataclass(frozen=True)
class SeedPairs:
    """Pairs that are alike but for the seed: they may be averaged, and no others."""

    pairs: Mapping[int, RunPair]
    """The pairs of runs, by seed."""
    again: tuple[RunPair, ...] = ()
    """Pairs of a seed that is there already: the same searches once more, which count for nothing."""


@dataclass(frozen=True)
class Contribution:
    """A measure with teaching minus the same without, over the pairs of a setting."""

    title: str
    unit: str
    lower_is_better: bool
    taught: tuple[float, ...]
    alone: tuple[float, ...]
    comparison: Comparison

    @property
    def mean(self) -> float:
        """Return the mean of the differences."""
        return sum(a - b for a, b in zip(self.taught, self.alone, strict=True)) / len(self.taught)


def weight(run: Run) -> float | None:
    """Return lambda of a search, or None where it is not known."""
    return number_at(run.given.config, "search", "lambda")


def pairs_of(runs: Sequence[Run]) -> list[RunPair]:
    """Return every search with teaching that has a twin without."""
    found = []
    searches = [run for run in runs if run.kind == "search" and run.given.config]
    for taught in searches:
        if not weight(taught):
            continue
        twin = next((other for other in searches if weight(other) == 0 and _same(taught, other)), None)
        if twin is not None:
            found.append(RunPair(taught, twin))
    return found


def twin_of(run: Run, pairs: Sequence[RunPair]) -> Run | None:
    """Return the run without teaching that belongs to one."""
    return next((pair.alone for pair in pairs if pair.taught is run), None)


def settings_of(pairs: Sequence[RunPair]) -> list[SeedPairs]:
    """Return pairs by what they search, in the order in which they are given; another lambda is another setting."""
    found: list[tuple[dict[str, Any], dict[int, RunPair], list[RunPair]]] = []
    for pair in pairs:
        config = _search_part(pair.taught.given.config)
        seed = whole(config.pop("seed", None)) or 0
        own = next((one for one in found if one[0] == config), None)
        if own is None:
            found.append((config, {seed: pair}, []))
        elif seed in own[1]:
            own[2].append(pair)
        else:
            own[1][seed] = pair
    return [SeedPairs(by_seed, tuple(again)) for _, by_seed, again in found]


def _same(one: Run, other: Run) -> bool:
    return _without_lambda(one.given.config) == _without_lambda(other.given.config)


def _search_part(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in NOT_COMPARED}


def _without_lambda(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = _search_part(config)
    search = kept.get("search")
    if isinstance(search, Mapping):
        kept["search"] = {key: value for key, value in search.items() if key != "lambda"}
    return kept


def contributions(setting: SeedPairs) -> list[Contribution]:
    """Return what teaching changed, for each measure that all pairs have."""
    own = setting.pairs
    measures: list[tuple[str, str, bool, RunValue]] = [
        ("validation error of the retained learner", "points", True, lambda run: final(run, "validation_error")),
        ("validation loss of the retained learner", "nats", True, lambda run: final(run, "validation_loss")),
        ("mean validation error of all learners", "points", True, _mean_error),
        ("test error after training", "points", True, _test_error),
    ]
    columns = sorted({str(c) for pair in own.values() for c in section_at(pair.taught.result, "true_accuracy")})
    measures += [(f"{accuracy_on(c)} of the answer", "points", False, _true_accuracy(c)) for c in columns]
    made = []
    for title, unit, lower, measure in measures:
        values = {seed: _compared(pair, measure) for seed, pair in own.items()}
        known = {seed: both for seed, both in values.items() if both is not None}
        if known and len(known) == len(own):
            first, second = ({seed: both[i] for seed, both in known.items()} for i in (0, 1))
            found = compare_paired(first, second)
            made.append(Contribution(title, unit, lower, tuple(first.values()), tuple(second.values()), found))
    return made


def _true_accuracy(column: str) -> RunValue:
    return lambda run: number_at(run.result, "true_accuracy", column)


def _mean_error(run: Run) -> float | None:
    group = run.result.get("group")
    errors = [number_at(one, "validation_error") for one in group] if isinstance(group, list) else []
    known = [error for error in errors if error is not None]
    return sum(known) / len(known) if known and len(known) == len(errors) else None


def differently_trained(setting: SeedPairs) -> str:
    """Return a sentence on cells that were both tested, but not trained the same way; empty if there are none."""
    pairs = setting.pairs.values()
    tested = [pair for pair in pairs if _test_error(pair.taught) is not None and _test_error(pair.alone) is not None]
    other = [pair for pair in tested if not _same_training(pair)]
    if not other:
        return ""
    names = "; ".join(f"{pair.taught.name}, {pair.alone.name}" for pair in other)
    return (
        f"Test errors are not compared, because the trainings have different settings ({names}): seed, data or "
        f"training "
        "of their configs differ."
    )


def head_start(setting: SeedPairs) -> str:
    """Return a sentence on steps in which W learns without teaching, but waits with it; empty if there are none."""
    known = (pair.taught.given.steps for pair in setting.pairs.values())
    steps = next((one for one in known if one is not None), None)
    if steps is None or steps.v_alone == 0:
        return ""
    return (
        "The configs differ in lambda alone, but W takes more steps without teaching. With teaching it waits "
        "while V is "
        "trained first (search.v_warmup); with lambda = 0 there is no V, and W learns in these steps too: "
        f"{steps.v_alone:,} more of {steps.all:,}."
    )


def _same_training(pair: RunPair) -> bool:
    one, other = (run.parts["training"].given.config for run in (pair.taught, pair.alone))
    return bool(one) and all(one.get(key) == other.get(key) for key in OF_TRAINING)


def _compared(pair: RunPair, measure: RunValue) -> tuple[float, float] | None:
    one, other = measure(pair.taught), measure(pair.alone)
    if one is None or other is None or (measure is _test_error and not _same_training(pair)):
        return None
    return one, other


def _test_error(run: Run) -> float | None:
    part = run.parts.get("training")
    return None if part is None else final(part, "test_error")


def differing_keys(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Return the keys of the configs that are not the same in all runs, with the value of each."""
    flat = [flattened(run.given.config) for run in runs]
    keys = dict.fromkeys(key for one in flat for key in one)
    return {key: [one.get(key) for one in flat] for key in keys if len({repr(one.get(key)) for one in flat}) > 1}


def flattened(config: object, prefix: str = "") -> dict[str, Any]:
    """Return keys of sections joined by dots; lists as they are."""
    if not isinstance(config, Mapping):
        return {prefix.rstrip("."): config}
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= (
            flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
        )
    return found
