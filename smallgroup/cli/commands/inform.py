"""The options of `describe`, `list` and `doctor`."""

from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.cli.given import given_options


def describe(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE",
            help="A published name, a file or a run's folder, JSON, the notation Genotype(normal=[...], ...) of the "
            "DARTS papers, or that of another space, such as |op~0|+|op~0|op~1|+|op~0|op~1|op~2|.",
        ),
    ],
    network: Annotated[
        str | None,
        typer.Option(
            metavar="cifar10|cifar100|imagenet",
            help="The full network whose size is given. The default is that of the run, and cifar10 for other cells.",
        ),
    ] = None,
    auxiliary: Annotated[
        str,
        typer.Option(
            metavar="auto|one-norm|two-norms",
            help="The head that helps to train, by its batch norms; auto: two on CIFAR, on ImageNet as released.",
        ),
    ] = "auto",
    json: options.Json = False,
) -> None:
    """Parameters, multiply-adds and a drawing of genotypes.

    Multiply-adds are those of convolutions and linear layers for one image, which has 32x32 pixels for CIFAR and
    224x224 for ImageNet, unless the space of a cell has an ImageNet of its own, such as one of 16x16 pixels.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_described(genotypes, network, auxiliary)
    from smallgroup.cli.describe import run  # noqa: PLC0415

    run(genotypes, network, auxiliary, as_json=json)


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="One of genotypes, methods, spaces, datasets, exporters, recipes, studies, rows and keys.",
        ),
    ],
    *,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="Of rows: how many days each takes on this machine. Measured once, in five minutes or more, and kept.",
        ),
    ] = True,
    recipe: options.Recipe = None,
    dataset: options.Dataset = None,
    method: options.Method = None,
    space: options.Space = None,
    learners: options.Learners = None,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    json: options.Json = False,
) -> None:
    """What there is to choose from, with a line on each.

    `list keys` has the value of every key under what is given here, and where it comes from: you, a recipe or a variant
    of it, the method, or the default of the key.
    """
    from smallgroup.cli.lists import run  # noqa: PLC0415
    from smallgroup.config import load, overlaid  # noqa: PLC0415

    options_ = given_options(recipe=recipe, dataset=dataset, method=method, space=space, learners=learners)
    given = options_ if config is None else overlaid(load(config), options_)
    run(what, as_json=json, estimate=estimate, given=given, changes=changes or ())


def doctor(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="folder:PATH", help="Data to look at as well, such as folders of images."),
    ] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Check this machine: versions, devices and data.

    The exit code is 1 if data is damaged or a folder named here cannot be used. Data that is not there is no error.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_examined(folders or ())
    from smallgroup.cli.doctor import run  # noqa: PLC0415

    run(data_root, tuple(folders or ()), as_json=json)
