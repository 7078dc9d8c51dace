"""`smallgroup mutual`: deep mutual learning, and the same networks alone beside it."""

from dataclasses import replace
from pathlib import Path

from smallgroup import api
from smallgroup.cli.durations import written
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.cli.wanted import Wanted, next_folder
from smallgroup.config import keys_for_training
from smallgroup.display.training import TrainingDisplay
from smallgroup.phases.training import MutualResult, Peers
from smallgroup.spaces import genotypes

ALONE = "alone"
"""The folder of the control within that of the run."""
LONGEST = 24
"""Letters of a name in the table; the text of a cell has more, and its space stands for it."""


def run(texts: list[str], group: Peers, wanted: Wanted, *, as_json: bool) -> None:
    """Train networks together, and then each of them alone."""
    wanted = replace(wanted, base=keys_for_training(texts[0], wanted.given()))
    named = [genotypes.resolve(text) for text in texts]
    together, folder = train_group(group, wanted, wanted.out, "together")
    alone = together
    if group.weight:
        # The config of the run is below the control: it need not be given again either.
        control = replace(wanted, base=keys_for_training(folder, {}))
        alone, _ = train_group(replace(group, weight=0.0), control, folder / ALONE, ALONE)
    if as_json:
        print_json({"mutual": together.to_dict(), "alone": alone.to_dict(), "run": str(folder)})
    else:
        names = [name if len(name) <= LONGEST else cell.space for name, cell in named]
        _show(names * (len(together.learners) // len(names)), together, alone, folder)


def train_group(group: Peers, wanted: Wanted, folder: Path | None, title: str) -> tuple[MutualResult, Path]:
    """Train networks together in a folder, and watch them."""
    config = wanted.resolved({"space": group.genotypes[0].space}, folder)
    folder = folder or next_folder("mutual", config.data.dataset)
    with TrainingDisplay(title=title) as display:
        finished = wanted.resume and MutualResult.read(folder) is not None
        wanted.check_begun(folder, display.say)
        result = api.train_mutually(
            group.genotypes,
            config,
            weight=group.weight,
            out=folder,
            resume=wanted.resume,
            allow_drift=wanted.allow_drift,
            watcher=display,
        )
        if finished:
            display.say(f"the run in {folder} is finished; there is nothing to resume")
    return result, folder


def _show(names: list[str], together: MutualResult, alone: MutualResult, folder: Path) -> None:
    """Print the result: each network together beside the same one alone."""
    rows = [("learner", "cell", "parameters", "test error %: together", "alone", "difference")]
    for k, (name, one, other) in enumerate(zip(names, together.learners, alone.learners, strict=True)):
        errors = _errors(one.test_error, other.test_error)
        rows.append((str(k), name, f"{one.parameters:,}", *errors))
    means = [None if result.mean is None else result.mean["test_error"] for result in (together, alone)]
    print_columns([*rows, ("mean", "", "", *_errors(*means))])
    if alone is together:
        say("", "With weight 0 no network learns from another, so there is no control to compare with.")
        time = written(together.seconds)
    else:
        say(
            "",
            f"Alone: the same initial weights and batches, with weight 0 instead of {together.weight:g}. This "
            "is one seed: the difference does not include the spread between seeds.",
        )
        time = f"{written(together.seconds)} together, {written(alone.seconds)} alone"
    say(f"{time}; test images were {together.test_set}; everything is in {folder}")


def _errors(one: float | None, other: float | None) -> tuple[str, str, str]:
    if one is None or other is None:
        return "none", "none", ""
    return f"{one:.2f}", f"{other:.2f}", f"{one - other:+.2f}"
