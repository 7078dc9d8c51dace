"""Carry out `smallgroup search`: run it, print the answer and the numbers of the learners."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import Config, seeds_of
from smallgroup.display.display import MEASURING
from smallgroup.display.search import SearchDisplay
from smallgroup.phases.search.config import ANSWERS
from smallgroup.phases.search.result import SearchResult
from smallgroup.places import check_for_seeds
from smallgroup.seeds import SeedResults, search_seeds
from smallgroup.spaces import GROUND_TRUTHS
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import from_plain
from smallgroup.spaces.ground_truth import caveat_of


def run(wanted: Wanted, *, as_json: bool) -> None:
    """Run one search, or one per seed."""
    seeds = None if wanted.seeds is None else seeds_of(wanted.seeds)
    if seeds is None:
        result, folder = search_one(wanted, wanted.out, {})
        if as_json:
            print_json({**result.to_dict(), "run": str(folder)})
        else:
            _show(result, folder)
        return
    found, folder = _search_all(wanted, seeds)
    if as_json:
        print_json({**found.to_dict(), "run": str(folder)})
    else:
        _show_seeds(found, folder)


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
        result = api.search(
            config,
            out=folder,
            seconds=wanted.seconds,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            watcher=display,
            recorders=recorders,
            measuring=lambda: display.say(MEASURING),
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def _search_all(wanted: Wanted, seeds: Sequence[int]) -> tuple[SeedResults, Path]:
    """Search with every seed, and watch it."""
    folder = wanted.out
    if folder is not None:
        check_for_seeds(folder)
        wanted.check_begun(folder, lambda _: None)  # it is said of every search
        wanted = wanted.on_shared()
    config = wanted.resolved({"seed": seeds[0]})
    folder = folder or next_folder(config.data.dataset, config.method_names)

    def search(one: Config, place: Path) -> SearchResult:
        # A search that was begun is resumed with its own config, the others with the one they share.
        own = replace(wanted, base=one.to_dict(), changes=(), options={}, config=None, time_budget=None)
        return search_one(own, place, {"seed": one.seed}, f"seed {one.seed}")[0]

    found = search_seeds(
        config,
        seeds,
        out=folder,
        seconds=wanted.seconds,
        resume=wanted.resume,
        search_one=search,
        measuring=lambda: say(MEASURING, err=True),
    )
    return found, folder


def _show(result: SearchResult, folder: Path) -> None:
    """Print the cell and the numbers that the search found."""
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


def _show_seeds(found: SeedResults, folder: Path) -> None:
    """Print a row per search, then mean and spread."""
    names = list(found.mean)
    rows = [("seed", "answer", *(name.replace("_", " ") for name in names))]
    for result in found.results:
        own = SeedResults((result,)).mean
        rows.append((str(result.seed), result.answer.whose, *(f"{own[name]:.3f}" for name in names)))
    for which, values in (("mean", found.mean), ("std", found.std)):
        rows.append((which, "", *(f"{values[name]:.3f}" for name in names)))
    print_columns(rows)
    rules = dict.fromkeys(result.answer.rule for result in found.results)
    say(*(f"answer: {rule}: {ANSWERS[rule]}" for rule in rules))
    gradients = "; ".join(dict.fromkeys(result.gradient for result in found.results))
    say(f"architecture gradient: {gradients}", "", f"{len(found.results)} searches; everything is in {folder}")
