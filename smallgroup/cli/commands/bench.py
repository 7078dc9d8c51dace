"""`smallgroup bench`: its commands and their options. What they do is imported when they are called."""

from pathlib import Path as Directory
from typing import Annotated, Any

import typer

from smallgroup.cli import options
from smallgroup.cli.given import given_options
from smallgroup.cli.plain_help import PlainCommand

OUTCOMES = Directory("outcome")

app = typer.Typer(
    name="bench",
    short_help="Measure how fast this machine searches.",
    help="Measure how fast this machine searches: textbook form and fast path, in turn, in one run. "
    "Compare the ratios; if the machine is also doing other work, look at their spread.",
)


def _count(help_: str, metavar: str = "N") -> Any:  # noqa: ANN401
    return typer.Option(parser=options.whole_number, metavar=metavar, help=help_)


Path = Annotated[
    str,
    typer.Option(
        metavar="auto|torch|native",
        help="Kernels to compare with the plain form: pure torch, our own, or the fastest on this machine.",
    ),
]
Rounds = Annotated[int | None, _count("Rounds that are counted, after one that warms up.")]
Threads = Annotated[int | None, _count("Threads of torch. The default is torch's own choice.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Use small sizes, to check that it runs. The ratios of small networks mean little."),
]
Channels = Annotated[int | None, _count("Channels of the first cells.", "C")]
Cells = Annotated[int | None, _count("Cells in all, in spaces with the key space.cells.")]
CellsPerStage = Annotated[int | None, _count("Cells of each stage, in spaces with the key space.cells_per_stage.")]
BatchOption = Annotated[int | None, _count("Images of a batch.")]
Size = Annotated[int | None, _count("Height and width of an image. The default is 32.", "PIXELS")]
Spaces = Annotated[
    list[str] | None,
    typer.Option("--space", metavar="NAME", help="Space to measure (`smallgroup list spaces`); repeatable."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="NAME", help="Method to measure (`smallgroup list methods`); repeatable."),
]
Groups = Annotated[
    list[int] | None,
    typer.Option("--learners", parser=options.whole_number, metavar="K", help="Number of learners; repeatable."),
]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--hypergradient", metavar="first-order|finite-difference|exact", help="Mode of the gradient; repeatable."
    ),
]


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@app.command()
def step(
    *,
    method: Methods = None,
    space: Spaces = None,
    learners: Groups = None,
    hypergradient: Modes = None,
    channels: Channels = None,
    cells: Cells = None,
    cells_per_stage: CellsPerStage = None,
    batch: BatchOption = None,
    size: Size = None,
    rounds: Rounds = None,
    threads: Threads = None,
    path: Path = "auto",
    device: options.Device = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Measure whole steps, in textbook form and as in a search.

    Without options: two DARTS learners at the size of the paper (first-order and finite differences), supernets of the
    space of `quick`, four learners beside two, and a training step of the network of DARTS_V2. That takes a quarter of
    an hour or more; --quick a minute. With --method, --space, --learners or --hypergradient: every combination of what
    is given. Sizes hold for every row that has them.

    Rows show the medians of both forms, their ratio with the lowest and highest of a round, the difference of the
    losses of their first step, and the fast time relative to the first row's.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, device, quick=quick, as_json=json)
    which = given_options(space=space, method=method, learners=learners, hypergradient=hypergradient)
    sizes = given_options(channels=channels, cells=cells, cells_per_stage=cells_per_stage, batch=batch, size=size)
    plan = plans.planned(which, asked.sized(sizes, plans.QUICK))
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.step(plan, asked)


@app.command()
def ops(
    *,
    channels: Channels = None,
    batch: BatchOption = None,
    size: Size = None,
    rounds: Rounds = None,
    threads: Threads = None,
    path: Path = "auto",
    device: options.Device = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Measure single operations, one at a time.

    Each operation of each space is measured with the strides it has there: its output, and the gradients of input and
    weights. The default is 16 channels and a batch of 32 images of 32x32 pixels, as in the first cells of a supernet.
    """
    from smallgroup.bench import operation  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, device, quick=quick, as_json=json)
    sizes = given_options(channels=channels, batch=batch, size=size)
    cases = operation.every_operation(**asked.sized(sizes, operation.QUICK))
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.operations(cases, asked)


@app.command()
def scaling(
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="learners|batch|cells|channels", help="What grows; repeatable. The default is all."),
    ] = None,
    method: options.Method = None,
    space: options.Space = None,
    hypergradient: options.Hypergradient = None,
    channels: Channels = None,
    cells: Cells = None,
    cells_per_stage: CellsPerStage = None,
    batch: BatchOption = None,
    size: Size = None,
    rounds: Rounds = None,
    threads: Threads = None,
    path: Path = "auto",
    device: options.Device = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Measure how the time of a step grows with its sizes.

    It measures the fast step with 1 to 8 learners, and with one to four times the batch, the cells and the channels.

    For each it fits the exponent e of seconds = c size^e, by least squares of the logarithms; 1 means proportional.
    Given sizes are the starting points. A single learner computes another step than a group, so K = 1 is shown, but
    the exponent is that of K = 2 to 8.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, device, quick=quick, as_json=json)
    which = given_options(space=space, method=method, hypergradient=hypergradient)
    sizes = given_options(channels=channels, cells=cells, cells_per_stage=cells_per_stage, batch=batch, size=size)
    base = plans.base_of_growth(which, asked.sized(sizes, plans.QUICK_GROWN))
    points = plans.points(base, over or plans.DIMENSIONS)
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.scaling(base, points, asked)


@app.command()
def memory(
    *,
    method: Methods = None,
    space: Spaces = None,
    learners: Groups = None,
    hypergradient: Modes = None,
    channels: Channels = None,
    cells: Cells = None,
    cells_per_stage: CellsPerStage = None,
    batch: BatchOption = None,
    size: Size = None,
    threads: Threads = None,
    path: Path = "auto",
    device: options.Device = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Measure the peak memory of a step, fast and plain.

    It is the memory that a step needs beyond what the process used before its first one; the ratio is fast / plain.
    Each form runs in its own process. On a CUDA device it is the memory of tensors there. Without options it measures
    two DARTS learners at the size of the paper, first-order, for which the plain form needs several gigabytes.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, None, threads, device, quick=quick, as_json=json)
    which = given_options(space=space, method=method, learners=learners, hypergradient=hypergradient)
    sizes = given_options(channels=channels, cells=cells, cells_per_stage=cells_per_stage, batch=batch, size=size)
    cases = plans.combined(which, asked.sized(sizes, plans.QUICK))
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.memory(cases, asked)


@app.command()
def distributed(
    *,
    ranks: Annotated[int, _count("Number of processes; learners are divided over them.")] = 2,
    method: options.Method = None,
    space: options.Space = None,
    learners: Annotated[int | None, _count("Learners of the group. The default is 2.", "K")] = None,
    hypergradient: options.Hypergradient = None,
    channels: Channels = None,
    cells: Cells = None,
    cells_per_stage: CellsPerStage = None,
    batch: BatchOption = None,
    size: Size = None,
    rounds: Rounds = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Compare a group on ranks with one process.

    It prints the CPU seconds of a step in one process over those of the busiest of several, the share of the exchange
    in both, and the predictions of the cost model in docs/scaling.md. Each process has one thread. The default is
    DARTS in the default space with one cell per stage and batches of 64 images, by finite differences.
    CPU seconds depend on other work on the machine less than seconds do.
    """
    from smallgroup.bench.group_step import GroupStep  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415
    from smallgroup.config import Config  # noqa: PLC0415

    asked = BenchRequest("auto", rounds, 1, quick=quick, as_json=json)
    which = given_options(space=space, method=method, learners=learners, hypergradient=hypergradient)
    sizes = given_options(channels=channels, cells=cells, cells_per_stage=cells_per_stage, batch=batch, size=size)
    small = {"channels": 4, "cells": 3, "cells_per_stage": 1, "batch": 8, "size": 16}
    usual: dict[str, Any] = {"space": Config().space.name, "cells_per_stage": 1, "batch": 64}
    usual["hypergradient"] = "finite-difference"
    case = GroupStep(**{**usual, **which, **asked.sized(sizes, small)})
    from smallgroup.cli import bench_distributed  # noqa: PLC0415

    bench_distributed.distributed(case, ranks, asked)


@app.command(cls=PlainCommand)
def shards(
    folder: Annotated[
        Directory | None,
        typer.Argument(metavar="[FOLDER]", help="A folder of images. The default is generated, 500 x 375 pixels each."),
    ] = None,
    *,
    images: Annotated[int | None, _count("Number of images read per round. The default is 120.")] = None,
    side: Annotated[int, _count("The short side of images in shards.", "PIXELS")] = 256,
    rounds: Rounds = None,
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Measure reading: image files against shards.

    One process reads random parts of 224 x 224 pixels, as in training on ImageNet, from image files, and from JPEG and
    PPM shards made of them. The table has images per CPU second.
    """
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest("auto", rounds, 1, quick=quick, as_json=json)
    from smallgroup.cli import bench_distributed  # noqa: PLC0415

    bench_distributed.shards(folder, images or (12 if quick else None), side, asked)


@app.command()
def outcome(
    *,
    out: Annotated[
        Directory, typer.Option(metavar="DIR", help="Folder for outcomes; finished ones are reused.")
    ] = Directory("outcome"),
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only tables whose name contains this text.")] = "",
    workers: Annotated[
        int,
        typer.Option(
            parser=options.whole_number, metavar="N", help="Number of parallel processes, each with one thread."
        ),
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what is left to measure, and stop.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use seconds instead of minutes, to check that it runs.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compare whole runs with other uses of the same CPU time.

    On digits, CIFAR-10, CIFAR-100 and drawn clothes, paired by seed: `run`, an independent pair in place of the group,
    random cells, the best of many by scores without training, random cells through the same play-off, a plain CNN and
    a ResNet. Everything an arm does is counted. It takes about 30 hours of CPU time in all, and resumes where it was
    stopped.
    """
    from smallgroup.bench.outcome.tasks import check_asked  # noqa: PLC0415

    check_asked(out, only, workers, quick=quick)
    from smallgroup.cli import bench_outcome  # noqa: PLC0415

    bench_outcome.run(out, only, workers, quick=quick, dry_run=dry_run, as_json=json)


@app.command(cls=PlainCommand)
def compare(
    before: Annotated[Directory, typer.Argument(metavar="BEFORE", help="Output of a bench with --json.")],
    after: Annotated[Directory, typer.Argument(metavar="AFTER", help="Output of the same bench with another version.")],
    *,
    json: options.Json = False,
) -> None:
    """Compare two measurements: what became faster or slower.

    BEFORE and AFTER are files with what `bench step`, `ops`, `scaling` or `memory` printed with --json. Rows of the
    same name are compared: ratios of the plain form to the fast one in CPU seconds where there are such. A row is
    slower where every round after is worse than every round before; that takes 3 rounds at least. The exit code is 1 if
    a row is slower.
    """
    from smallgroup.cli import bench_compare  # noqa: PLC0415

    if not bench_compare.run(before, after, as_json=json):
        raise typer.Exit(1)
