"""Options that several commands have, each written once."""

from pathlib import Path
from typing import Annotated

import typer
from yaml import YAMLError

from smallgroup.runtime.device_names import TAKEN
from smallgroup.runtime.plain_yaml import parsed


def whole_number(text: str) -> int:
    """Read a whole number as a config does, or say what is wrong: Python would take 1_000 too."""
    number = _scalar(text)
    if isinstance(number, bool) or not isinstance(number, int):
        raise typer.BadParameter(f"a whole number is needed, but got {text[:40]!r}")
    return number


def _number(text: str) -> float:
    number = _scalar(text)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise typer.BadParameter(f"a number is needed, but got {text[:40]!r}")
    return float(number)


def _scalar(text: str) -> object:
    try:
        return parsed(str(text))
    except (ValueError, YAMLError):
        return None


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where data is looked for; else the variable SMALLGROUP_DATA, else the cache folder."
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="digits (the default), cifar10, cifar100, imagenet, folder:PATH or another of `smallgroup list datasets`.",
    ),
]
Unlabeled = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where unlabelled images come from: the same names, any images of folder:PATH, split (part of the "
        "training images without their labels) or train (the training images again).",
    ),
]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="The method of every learner: see `smallgroup list methods`.")
]
Space = Annotated[str | None, typer.Option(metavar="NAME", help="What may be found: see `smallgroup list spaces`.")]
Learners = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="K", help="How many learners; 1 is the plain method. The default is 2."),
]
Lambda = Annotated[
    float | None,
    typer.Option("--lambda", parser=_number, metavar="NUMBER", help="Weight of the labels of peers; 0: no teaching."),
]
Peers = Annotated[
    int | None,
    typer.Option(
        "--learners",
        parser=whole_number,
        metavar="K",
        help="How many networks, if all are of one GENOTYPE.",
    ),
]
Networks = Annotated[
    int | None,
    typer.Option(
        "--learners",
        parser=whole_number,
        metavar="K",
        help="Train K networks that teach one another on unlabeled images (--unlabeled), and keep the best.",
    ),
]
TrainLearners = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="K",
        help="Train K networks from scratch that teach one another on the unlabeled images, and keep the best.",
    ),
]
Controls = Annotated[
    bool,
    typer.Option(
        "--controls",
        help="Beside networks that teach one another, train the same on labels alone, self-taught, and one network for "
        "as many passes.",
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        parser=_number, metavar="NUMBER", help="Weight of the answers of peers beside the labels. The default is 1."
    ),
]
Hypergradient = Annotated[
    str | None,
    typer.Option(
        metavar="first-order|finite-difference|exact",
        help="How the architecture gradient passes through the steps of the weights.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        parser=whole_number, metavar="NUMBER", help="Every random number is a function of it. The default is 0."
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(metavar="1-5", help="Several searches, one per seed, with mean and spread; also 1,4,7."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="quick|paper|released-code",
        help="Where all comes from that is not given: quick (the default) takes minutes on a CPU; paper and "
        "released-code have the published settings.",
    ),
]
TimeBudget = Annotated[
    str | None,
    typer.Option(metavar="30m", help="Size the epochs to fit into this time: 90s, 30m, 1h30m. Of several runs, each."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML with any keys of a config; its plugins are imported."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one key, such as search.epochs=20; may stand several times. `smallgroup list keys` has them all.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The run's folder: a new or empty one, or that of a run. The default is a new one below runs/.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the run in --out, bit for bit, with the config it was begun with. If there is none, a new run "
        "begins, but only if other options say what to run.",
    ),
]
AllowDrift = Annotated[
    bool, typer.Option("--allow-drift", help="Resume even where other software or hardware may give other bits.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar=TAKEN,
        help="Where to compute. The default, auto, is the first CUDA device, else the CPU; `smallgroup doctor` lists "
        "what is there.",
    ),
]
OnNonfinite = Annotated[
    str | None,
    typer.Option(
        metavar="stop|skip",
        help="When a loss or a gradient is not finite: stop before the update (the default), or leave the batch out "
        "and count it, up to ten in a row (run.most_skipped).",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="PIXELS",
        help="Height and width of the images. The default is that of the data; for folders the median of the short "
        "sides, at most 64.",
    ),
]
SkipBadImages = Annotated[
    bool,
    typer.Option(
        "--skip-bad-images",
        help="Leave out image files that cannot be decoded, and count them; else they are an error.",
    ),
]
TrackTest = Annotated[
    bool,
    typer.Option("--track-test", help="Look at the test images after every epoch; the result then says so."),
]
Answer = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="How the group answers: play-off (default in quick), consensus, derived-error, or retained, the paper's.",
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Networks to compare with: none, or some of resnet, random and all-3x3, such as resnet,random (default).",
    ),
]
MaxParameters = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="NUMBER",
        help="The most parameters of the trained network: it has as few channels and cells as that demands.",
    ),
]
MaxMultiplyAdds = Annotated[
    int | None, typer.Option(parser=whole_number, metavar="NUMBER", help="The most multiply-adds of it for one image.")
]
MaxFlash = Annotated[
    float | None,
    typer.Option(
        "--max-flash-kb",
        parser=_number,
        metavar="KB",
        help="The most flash of it: weights and constants in int8. A KB is 1,024 bytes.",
    ),
]
MaxRam = Annotated[
    float | None,
    typer.Option(
        "--max-ram-kb",
        parser=_number,
        metavar="KB",
        help="The most RAM of it: live activations of one image in int8, in the best order, without the scratch memory "
        "of a runtime.",
    ),
]
TensorBoard = Annotated[
    bool,
    typer.Option(
        "--tensorboard",
        help="Write event files into `tensorboard` in the run (needs `pip install 'smallgroup[tensorboard]'`).",
    ),
]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="The folder of a search, a training, or a whole run.")]
OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a search, a training, or a whole run.")]
Model = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training, or of a run with one.")]
