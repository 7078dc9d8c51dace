"""What to do next: commands that work on the folder as it is."""

import shlex

from smallgroup.phases.training.place import ABOUT
from smallgroup.report.markup import Markup, render
from smallgroup.report.run import Run
from smallgroup.report.words import shown_path
from smallgroup.spaces.genotypes import FILE

Step = tuple[str, list[str]]
"""What it does, and the words of the command."""


def next_steps(run: Run) -> Markup | None:
    """Return the commands that follow, ready to copy."""
    lines = steps_of(run)
    if not lines:
        return None
    steps = [(words, shlex.join(line)) for words, line in lines]
    return render("next_steps.html", steps=steps, relative=not run.folder.is_absolute())


def steps_of(run: Run) -> list[Step]:
    """Suggest to watch a run in progress, to resume a stopped one, and to use what is finished."""
    place, training = shown_path(run.folder), run.parts.get("training")
    if "running" in (run.state, training.state if training else ""):
        return [("Watch it", ["smallgroup", "watch", place])]
    if run.kind == "training":
        return _of_training(run, ["smallgroup", "train", shown_path(run.folder / FILE), "--out", place, "--resume"])
    if training is not None:
        return _of_training(training, ["smallgroup", "train", place, "--resume"], place)
    if not run.result:
        return [("Continue the search", ["smallgroup", "search", "--out", place, "--resume"])]
    if not (run.folder / FILE).is_file():
        return []
    return [
        ("Train its cell from scratch", ["smallgroup", "train", place]),
        ("then export the trained network", ["smallgroup", "export", place, "--format", "onnx"]),
    ]


def _of_training(run: Run, resume: list[str], place: str = "") -> list[Step]:
    place = place or shown_path(run.folder)
    if (run.folder / ABOUT).is_file():
        return [
            ("Export the trained network", ["smallgroup", "export", place, "--format", "onnx"]),
            ("or classify images", ["smallgroup", "predict", place, "IMAGE"]),
        ]
    known = not run.result and (run.folder / FILE).is_file()
    return [("Continue the training", resume)] if known else []
