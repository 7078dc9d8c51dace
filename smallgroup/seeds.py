"""Searches that differ in their seed alone: mean and spread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from smallgroup import api
from smallgroup.config import Config, keys_of_any, load_own, resolve
from smallgroup.data.given import takes_data
from smallgroup.data.own import LabeledImages, OwnData
from smallgroup.fitting import SPENT, search_in_time
from smallgroup.phases.search.result import SearchResult
from smallgroup.places import SEEDS, check_for_seeds
from smallgroup.runner import check_identity
from smallgroup.runtime.budget import Budget
from smallgroup.runtime.checks import check_counts
from smallgroup.runtime.files import check_not_link, write_whole


@dataclass(frozen=True)
class SeedResults:
    """The results of searches with several seeds."""

    results: tuple[SearchResult, ...]

    @property
    def mean(self) -> dict[str, float]:
        """The means of the numbers that all of them have."""
        return {name: fmean(values) for name, values in self._numbers.items()}

    @property
    def std(self) -> dict[str, float]:
        """Their standard deviations; 0 of a single search."""
        return {name: stdev(values) if len(values) > 1 else 0.0 for name, values in self._numbers.items()}

    @property
    def _numbers(self) -> dict[str, list[float]]:
        numbers: dict[str, list[float]] = {
            "validation_error": [result.validation_error for result in self.results],
            "validation_loss": [result.validation_loss for result in self.results],
            "seconds": [result.seconds for result in self.results],
        }
        known = [set(result.true_accuracy or {}) for result in self.results]
        for column in sorted(set.intersection(*known)):  # learners of other spaces have none
            numbers[f"true_accuracy_{column}"] = [(result.true_accuracy or {})[column] for result in self.results]
            numbers[f"percentile_{column}"] = [(result.percentile or {})[column] for result in self.results]
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `--json` prints them."""
        return {"runs": [result.to_dict() for result in self.results], "mean": self.mean, "std": self.std}


@takes_data
def search_seeds(
    config: Config | Mapping[str, Any] | Path | str | None,
    seeds: Sequence[int],
    *,
    out: Path | str,
    seconds: float | None = None,
    resume: bool = False,
    search_one: Callable[[Config, Path], SearchResult] | None = None,
    measuring: Callable[[], None] | None = None,
    data: OwnData | LabeledImages | None = None,
    **options: Any,  # noqa: ANN401 -- passed on
) -> SeedResults:
    """Search once for each seed, each in its own folder inside `out`, and return all results.

    Args:
        config: what to search, as in `search`; the seed in it does not count.
        seeds: one search each.
        out: the folder of all of them.
        seconds: a time budget for each search; the steps are measured once for all of them.
        resume: continue the searches in that folder; the results of finished ones are reused.
        search_one: carries out one search in its folder; None: `smallgroup.search`.
        measuring: called before steps are measured for a time budget.
        data: images of your own, as in `search`.
        options: of `smallgroup.search`, such as `progress`.
    """
    for seed in seeds:
        check_counts(at_least=0, seed=seed)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be one or more numbers that differ, but got {str(list(seeds))[:60]}")
    folder = Path(out)
    check_for_seeds(folder)
    shared = folder / SEEDS
    begun = resolve(load_own(shared)) if resume and shared.exists() else None
    if begun is not None and not isinstance(config, Config) and not keys_of_any(config):
        config = begun
    given = api.on_data(config, data)
    first = given if isinstance(given, Config) else resolve(given)
    if begun is not None:
        # Searches that are not begun yet are of the same kind, and of the length that a time budget gave the others.
        if seconds is not None:
            length = {name: getattr(begun.search, name) for name in ("epochs", "steps_per_epoch")}
            first = first.model_copy(update={"search": first.search.model_copy(update=length)})
        mine, theirs = ({**one.of_search(), "seed": list(seeds)} for one in (first, begun))
        check_identity(mine, theirs)
        seconds = None
    configs = [first.model_copy(update={"seed": seed}) for seed in seeds]
    folders = [folder / f"seed-{seed}" for seed in seeds]
    for one, place in zip(configs, folders, strict=True):  # all of them before hours are spent
        check_not_link(place)
        api.check_place(place, one, resume=resume)
    if seconds is not None:
        if measuring is not None:
            measuring()
        sized = search_in_time(configs[0], Budget(SPENT * seconds))
        configs = [sized.model_copy(update={"seed": seed}) for seed in seeds]
    if not shared.exists():  # searches that are not begun yet when the others are resumed are of the same size
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(shared, configs[0].to_yaml())

    def search(one: Config, place: Path) -> SearchResult:
        return api.search(one, out=place, resume=resume, **options)

    carry_out = search_one or search
    return SeedResults(tuple(carry_out(one, place) for one, place in zip(configs, folders, strict=True)))
