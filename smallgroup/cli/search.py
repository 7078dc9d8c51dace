"""`smallgroup search`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import Config, load_own, resolve, seeds_of
from smallgroup.display.display import MEASURING, Display
from smallgroup.display.search import SearchDisplay
from smallgroup.fitting import search_within
from smallgroup.phases.search.config import ANSWERS
from smallgroup.phases.search.result import SearchResult
from smallgroup.places import SEEDS, check_for_seeds
from smallgroup.runtime.files import check_not_link, write_whole
from smallgroup.spaces import GROUND_TRUTHS
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import from_plain
from smallgroup.spaces.ground_truth import caveat_of

SEARCH_SHARE = 0.7
"""The most of a time budget that goes to the steps of a search, where a play-off follows."""


def run(wanted: Wanted, *, as_json: bool) -> None:
    """One search, or one per seed."""
    seeds = None if wanted.seeds is None else seeds_of(wanted.seeds)
    if seeds is None:
        result, folder = search_one(wanted, wanted.out, {})
        if as_json:
            print_json({**result.to_dict(), "run": str(folder)})
        else:
            _show(result, folder)
        return
    folder, wanted = _for_all(wanted, seeds)
    results = [search_one(wanted, _of_seed(folder, seed), {"seed": seed}, f"seed {seed}")[0] for seed in seeds]
    if as_json:
        print_json({"runs": [result.to_dict() for result in results], **spread(results), "run": str(folder)})
    else:
        _show_seeds(results, folder)


def search_one(
    wanted: Wanted, folder: Path | None, options: Mapping[str, Any], title: str = ""
) -> tuple[SearchResult, Path]:
    """Search in a folder, and watch it."""
    config = wanted.resolved(options, folder)
    folder = folder or next_folder(config.data.dataset, config.method_names)
    with SearchDisplay(title=title) as display:
        finished = wanted.resume and SearchResult.read(folder) is not None
        wanted.check_begun(folder, display.say)
        recorders = wanted.recorders(folder)
        if wanted.time_budget is not None:
            api.check_place(folder, config, resume=wanted.resume)  # before its steps are measured
            config = _sized(config, wanted, display)
        result = api.search(
            config,
            out=folder,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            watcher=display,
            recorders=recorders,
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def _for_all(wanted: Wanted, seeds: Sequence[int]) -> tuple[Path, Wanted]:
    """The folder of several searches, and what holds for all of them: a time budget is measured once.

    It is written down, so that searches that are not begun yet when the others are resumed are of the same size.
    """
    folder = wanted.out
    if folder is not None:
        check_for_seeds(folder)
        wanted.check_begun(folder, lambda _: None)  # it is said of every search
        if wanted.resume and (folder / SEEDS).exists():
            wanted = replace(wanted, base=load_own(folder / SEEDS))
    configs = [wanted.resolved({"seed": seed}) for seed in seeds]  # all of them before hours are spent
    folder = folder or next_folder(configs[0].data.dataset, configs[0].method_names)
    for seed, config in zip(seeds, configs, strict=True):
        check_not_link(_of_seed(folder, seed))
        api.check_place(_of_seed(folder, seed), config, resume=wanted.resume)
    if wanted.time_budget is not None:
        with SearchDisplay() as display:
            sized = _sized(configs[0], wanted, display)
        size: tuple[str, ...] = (
            f"search.epochs={sized.search.epochs}",
            f"search.steps_per_epoch={sized.search.steps_per_epoch}",
        )
        if sized.playoff.seconds is not None:
            size = (*size, f"playoff.seconds={sized.playoff.seconds}")
        wanted = replace(wanted, changes=(*wanted.changes, *size), time_budget=None)
    if not (folder / SEEDS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SEEDS, wanted.resolved({"seed": seeds[0]}).to_yaml())
    return folder, wanted


def _of_seed(folder: Path, seed: int) -> Path:
    """The folder of one of several searches."""
    return folder / f"seed-{seed}"


def _sized(config: Config, wanted: Wanted, display: Display) -> Config:
    """A config that fits into the time budget, that of measuring included; a play-off takes what the search leaves."""
    display.say(MEASURING)
    budget, answer = wanted.budget(), config.search.answer
    fitted = search_within(config, budget, SEARCH_SHARE if answer == "play-off" else 1.0)
    if answer != "play-off":
        return fitted.config
    return resolve(fitted.config.to_dict(), [f"playoff.seconds={max(1.0, budget.left - fitted.seconds):.3f}"])


def spread(results: Sequence[SearchResult]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over the searches of what can be compared."""
    numbers: dict[str, list[float]] = {
        "validation_error": [result.validation_error for result in results],
        "validation_loss": [result.validation_loss for result in results],
        "seconds": [result.seconds for result in results],
    }
    known = [set(result.true_accuracy or {}) for result in results]
    for column in sorted(set.intersection(*known)):  # learners of other spaces have none
        numbers[f"true_accuracy_{column}"] = [(result.true_accuracy or {})[column] for result in results]
        numbers[f"percentile_{column}"] = [(result.percentile or {})[column] for result in results]
    return {
        "mean": {name: fmean(values) for name, values in numbers.items()},
        "std": {name: stdev(values) if len(values) > 1 else 0.0 for name, values in numbers.items()},
    }


def _show(result: SearchResult, folder: Path) -> None:
    """What was found."""
    say(result.answer.sentence, "")
    # Learners of other spaces have no true accuracy.
    columns = list(next((one.true_accuracy for one in result.group if one.true_accuracy), {}))
    kinds = ["predicted" if caveat_of(column) else "true" for column in columns]
    titles = [f"{kind} {column} %" for kind, column in zip(kinds, columns, strict=True)]
    titles += [f"percentile {column}" for column in columns]
    derived = any(learner.derived_error is not None for learner in result.group)
    rows = [("learner", "method", "validation loss", "error %", "balanced %", *["derived %"] * derived, *titles)]
    for k, learner in enumerate(result.group):
        truths = [_number(learner.true_accuracy, column, 2) for column in columns]
        truths += [_number(learner.percentile, column, 1) for column in columns]
        rows.append(
            (
                str(k),
                learner.method,
                f"{learner.validation_loss:.4f}",
                f"{learner.validation_error:.2f}",
                "" if learner.balanced_error is None else f"{learner.balanced_error:.2f}",
                *([] if learner.derived_error is None else [f"{learner.derived_error:.2f}"]),
                *truths,
            )
        )
    if result.answer.learner is None:  # it has no supernet of its own, and so no loss and no error
        truths = [_number(result.true_accuracy, column, 2) for column in columns]
        truths += [_number(result.percentile, column, 1) for column in columns]
        rows.append((result.answer.whose, result.method, "", "", "", *[""] * derived, *truths))
    print_columns(rows)
    for column in columns:
        if (caveat := caveat_of(column)) is not None:
            say(f"{column}: {caveat}; skips in the normal cell of {_skips(result, column)}")
    say(f"architecture gradient: {result.gradient}")
    say("", *draw(from_plain(result.answer_space, result.genotype)).split("\n"), "")
    memory = f"{result.peak_memory_mb / 1000:.1f} GB"
    say(f"{result.steps} steps in {written(result.seconds)}, {memory}; everything is in {folder}")


def _skips(result: SearchResult, column: str) -> str:
    """Skip connections of the learners of which a surrogate says something."""
    return ", ".join(
        f"learner {k}: {from_plain(GROUND_TRUTHS[column].space, learner.genotype).skips}"
        for k, learner in enumerate(result.group)
        if column in (learner.true_accuracy or {})
    )


def _number(known: Mapping[str, float] | None, column: str, digits: int) -> str:
    return "" if known is None or column not in known else f"{known[column]:.{digits}f}"


def _show_seeds(results: Sequence[SearchResult], folder: Path) -> None:
    """A row per search, then mean and spread."""
    over = spread(results)
    names = list(over["mean"])
    rows = [("seed", "answer", *(name.replace("_", " ") for name in names))]
    for result in results:
        own = spread([result])["mean"]
        rows.append((str(result.seed), result.answer.whose, *(f"{own[name]:.3f}" for name in names)))
    rows += [(which, "", *(f"{over[which][name]:.3f}" for name in names)) for which in ("mean", "std")]
    print_columns(rows)
    rules = dict.fromkeys(result.answer.rule for result in results)
    say(*(f"answer: {rule}: {ANSWERS[rule]}" for rule in rules))
    gradients = "; ".join(dict.fromkeys(result.gradient for result in results))
    say(f"architecture gradient: {gradients}", "", f"{len(results)} searches; everything is in {folder}")
