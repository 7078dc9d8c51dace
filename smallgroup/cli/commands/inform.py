"""The options of `describe`, `list` and `doctor`."""

from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.cli.given import given_options
from smallgroup.runtime.device_names import TAKEN


def describe(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE",
            help="A published name, a file, a run's folder, or the text of a genotype: JSON, Genotype(normal=[...], "
            "...) as in the DARTS papers, or the notation of its space, such as |op~0|+|op~0|op~1|+|op~0|op~1|op~2|.",
        ),
    ],
    network: Annotated[
        str | None,
        typer.Option(
            metavar="cifar10|cifar100|imagenet",
            help="Network whose size is printed. Default: the one of the run; cifar10 for other cells.",
        ),
    ] = None,
    auxiliary: Annotated[
        str,
        typer.Option(
            metavar="auto|one-norm|two-norms",
            help="Auxiliary head by its batch norms; auto: two on CIFAR, as released on ImageNet.",
        ),
    ] = "auto",
    latency: Annotated[
        bool,
        typer.Option(
            "--latency",
            help="Also measure the milliseconds for one image, with onnxruntime on one thread; several networks take "
            "turns.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Print parameters, multiply-adds, flash, RAM and a drawing.

    Multiply-adds count convolutions and linear layers for one image: 32x32 pixels for CIFAR, 224x224 for ImageNet,
    unless the space of the cell defines its own ImageNet size, such as 16x16 pixels.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_described(genotypes, network, auxiliary)
    from smallgroup.cli.describe import run  # noqa: PLC0415

    run(genotypes, network, auxiliary, latency=latency, as_json=json)


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="What to list: genotypes, methods, spaces, datasets, ground-truths, exporters, recipes, studies, "
            "rows, references (rows of the paper that no search here makes) or keys.",
        ),
    ],
    *,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="With rows: print the days each takes here. Measured once (five minutes or more) and cached.",
        ),
    ] = True,
    device: Annotated[
        str | None,
        typer.Option(
            metavar=TAKEN,
            help="With rows: device on which the days are estimated. The default, auto, is the first CUDA device, else "
            "the CPU.",
        ),
    ] = None,
    recipe: options.Recipe = None,
    dataset: options.Dataset = None,
    method: options.Method = None,
    space: options.Space = None,
    learners: options.Learners = None,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    json: options.Json = False,
) -> None:
    """List what you can choose from, with one line each.

    `list keys` prints the value of every key under the given options, and where it comes from: your options, a recipe
    or its variant, the method, or the default of the key.
    """
    from smallgroup.cli.lists import run  # noqa: PLC0415
    from smallgroup.config import load, overlaid  # noqa: PLC0415

    options_ = given_options(recipe=recipe, dataset=dataset, method=method, space=space, learners=learners)
    given = options_ if config is None else overlaid(load(config), options_)
    run(what, as_json=json, estimate=estimate, given=given, changes=changes or (), device=device)


def doctor(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="folder:PATH", help="More data to check, such as folders of images."),
    ] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Check this machine: versions, devices and data.

    The exit code is 1 if data is damaged or a folder named here cannot be used. Missing data is not an error.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_examined(folders or ())
    from smallgroup.cli.doctor import run  # noqa: PLC0415

    run(data_root, tuple(folders or ()), as_json=json)
