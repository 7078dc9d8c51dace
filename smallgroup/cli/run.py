"""`smallgroup run`: search, train from scratch, and baselines beside it."""

from smallgroup import pipeline
from smallgroup.baseline_names import Baseline
from smallgroup.cli.durations import seconds_of, written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.train import show_controls
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.phases.search.config import AnswerRule
from smallgroup.phases.training import TrainResult
from smallgroup.pipeline import RunResult
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.genotypes import from_plain


def run(
    wanted: Wanted,
    baselines: tuple[Baseline, ...] | None,
    answer: AnswerRule | None,
    *,
    controls: bool,
    as_json: bool,
) -> None:
    """Run search, trainings and verdict, and print the result."""
    config = wanted.resolved({}, wanted.out)
    if answer is None and pipeline.says_answer(wanted.given()):
        answer = config.search.answer
    folder = wanted.out or next_folder(config.data.dataset, config.method_names)
    wanted.check_begun(folder, lambda text: say(text, err=True))
    result = pipeline.run(
        config,
        out=folder,
        seconds=None if wanted.time_budget is None else seconds_of(wanted.time_budget),
        baselines=baselines,
        answer=answer,
        controls=controls or None,
        resume=wanted.resume,
        allow_drift=wanted.allow_drift,
        terse=False,
        recorders=wanted.recorders,
        say=lambda text: say(text, err=True),
    )
    if as_json:
        print_json({**result.to_dict(), "run": str(folder)})
    else:
        _show(result)
        show_controls(result.controls)
        say("", f"Everything is in {folder}")


def _show(result: RunResult) -> None:
    found, own = result.search, result.training
    say(f"{found.answer.sentence}. The cell, trained from scratch:", "")
    say(*draw(from_plain(own.space, own.genotype)).split("\n"), "")
    if own.choice:
        say(own.choice, "")
    rows: list[tuple[str, ...]] = [("", "test error %", "parameters", "multiply-adds", "epochs", "training")]
    rows.append(("the network found", *_columns(own)))
    rows += [(name, *_columns(other)) for name, other in result.baselines.items()]
    print_columns(rows)
    say(f"architecture gradient of the search: {found.gradient}", "")
    if result.baselines:
        say("Every network was trained with the same settings and has about the same multiply-adds.")
    if result.resnet_fills_limits:
        say("The ResNet is an exception: it is the largest that fits the limits, and a time budget if there is one.")
    for each in result.comparisons:
        say(each.sentence)
    play_off = "" if found.answer.seconds is None else f", {written(found.answer.seconds)} of it the play-off"
    say(f"Search: {written(found.seconds)}{play_off}.")


def _columns(result: TrainResult) -> tuple[str, ...]:
    error = "none" if result.test_error is None else f"{result.test_error:.2f}"
    sizes = (f"{result.parameters:,}", f"{result.multiply_adds:,}")
    return (error, *sizes, str(result.epochs), written(result.seconds))
