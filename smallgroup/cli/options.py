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
        metavar="DIR", help="Folder with the datasets. Default: SMALLGROUP_DATA if set, else the cache folder."
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
        help="Source of unlabeled images: the same names, any images of folder:PATH, split (part of the "
        "training images without their labels) or train (the training images again).",
    ),
]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="Method of all learners; `smallgroup list methods` names them.")
]
Space = Annotated[str | None, typer.Option(metavar="NAME", help="Search space; `smallgroup list spaces` names them.")]
Learners = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="K", help="Number of learners; 1 is the plain method. The default is 2."),
]
Lambda = Annotated[
    float | None,
    typer.Option(
        "--lambda", parser=_number, metavar="NUMBER", help="Weight of the peers' soft labels; 0 means no teaching."
    ),
]
Peers = Annotated[
    int | None,
    typer.Option(
        "--learners",
        parser=whole_number,
        metavar="K",
        help="Number of networks, if only one GENOTYPE is given.",
    ),
]
Networks = Annotated[
    int | None,
    typer.Option(
        "--learners",
        parser=whole_number,
        metavar="K",
        help="Train K networks that teach one another on unlabeled images (--unlabeled) and keep the best.",
    ),
]
TrainLearners = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="K",
        help="Train K networks from scratch that teach one another on unlabeled images, and keep the best.",
    ),
]
Controls = Annotated[
    bool,
    typer.Option(
        "--controls",
        help="Also train three controls: the same networks on labels alone, self-taught, and one network for "
        "as many passes.",
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        parser=_number,
        metavar="NUMBER",
        help="Weight of the peers' predictions relative to the labels. The default is 1.",
    ),
]
Hypergradient = Annotated[
    str | None,
    typer.Option(
        metavar="first-order|finite-difference|exact",
        help="How the architecture gradient is computed through the weight updates.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="NUMBER", help="Seed of all random numbers. The default is 0."),
]
Seeds = Annotated[
    str | None,
    typer.Option(metavar="1-5", help="Run one search per seed and print mean and spread; also 1,4,7."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="quick|paper|released-code",
        help="Preset for every setting you do not specify: quick (the default) takes minutes on a CPU; paper and "
        "released-code have the published settings.",
    ),
]
TimeBudget = Annotated[
    str | None,
    typer.Option(
        metavar="30m",
        help="Choose the number of epochs that fits this time: 90s, 30m, 1h30m. With several runs, per run.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="YAML file with config keys; options override it. Its plugins are imported."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one config key, such as search.epochs=20; repeatable. `smallgroup list keys` lists them all.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the run: new, empty, or of an existing run. The default is a new folder in runs/.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume the run in --out, bit-identically, with its own config. If there is no run, start a new one, "
        "but only if other options say what to run.",
    ),
]
AllowDrift = Annotated[
    bool, typer.Option("--allow-drift", help="Resume even if software or hardware changed, so that results may differ.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar=TAKEN,
        help="Device to compute on. The default, auto, is the first CUDA device, else the CPU; `smallgroup doctor` "
        "lists the devices found.",
    ),
]
OnNonfinite = Annotated[
    str | None,
    typer.Option(
        metavar="stop|skip",
        help="If a loss or gradient is not finite: stop before the update (the default), or skip and count the "
        "batch, up to ten in a row (run.most_skipped).",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="PIXELS",
        help="Height and width of the images in pixels. The default is that of the data; for folders, the median "
        "of the short sides, at most 64.",
    ),
]
SkipBadImages = Annotated[
    bool,
    typer.Option(
        "--skip-bad-images",
        help="Skip and count image files that cannot be decoded; without it they are an error.",
    ),
]
TrackTest = Annotated[
    bool,
    typer.Option("--track-test", help="Measure the test error after every epoch; the result records that you did."),
]
Answer = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="How the cell is chosen: play-off (default in quick), consensus, derived-error, or retained (paper).",
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Baselines to train: none, or any of resnet, random and all-3x3; the default is resnet,random.",
    ),
]
MaxParameters = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="NUMBER",
        help="Limit on parameters of the trained network; it gets fewer channels and cells until it fits.",
    ),
]
MaxMultiplyAdds = Annotated[
    int | None, typer.Option(parser=whole_number, metavar="NUMBER", help="Limit on multiply-adds per image.")
]
MaxFlash = Annotated[
    float | None,
    typer.Option(
        "--max-flash-kb",
        parser=_number,
        metavar="KB",
        help="Limit on flash: weights and constants in int8. A KB is 1,024 bytes.",
    ),
]
MaxRam = Annotated[
    float | None,
    typer.Option(
        "--max-ram-kb",
        parser=_number,
        metavar="KB",
        help="Limit on RAM: live activations of one image in int8, in the best order, without scratch memory "
        "of a runtime.",
    ),
]
MaxLatency = Annotated[
    float | None,
    typer.Option(
        "--max-latency-ms",
        parser=_number,
        metavar="MS",
        help="Limit on milliseconds for one image, measured on this machine with onnxruntime on one thread "
        "(needs `pip install 'smallgroup[onnx]'`).",
    ),
]
TensorBoard = Annotated[
    bool,
    typer.Option(
        "--tensorboard",
        help="Write TensorBoard files to `tensorboard` in the run (needs `pip install 'smallgroup[tensorboard]'`).",
    ),
]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="The folder of a search, a training, or a whole run.")]
OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a search, a training, or a whole run.")]
Model = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training, or of a run with one.")]
