"""`smallgroup bench`: its commands and their options. What they do is imported when they are called."""

from pathlib import Path as Directory
from typing import Annotated, Any

import typer

from smallgroup.cli import options
from smallgroup.cli.given import given_options

OUTCOMES = Directory("outcome")

app = typer.Typer(
    name="bench",
    short_help="How fast this machine searches.",
    help="How fast this machine searches: the textbook form of a computation against the fast path, in turn, in one "
    "run. Ratios are what counts; on a machine that does other things beside, look at their spread.",
)


def _count(help_: str, metavar: str = "N") -> Any:  # noqa: ANN401
    return typer.Option(parser=options.whole_number, metavar=metavar, help=help_)


Path = Annotated[
    str,
    typer.Option(
        metavar="auto|torch|native",
        help="What is compared with the plain form: pure torch, our own kernels, or the best there is here.",
    ),
]
Rounds = Annotated[int | None, _count("Rounds that are counted, after one that warms up.")]
Threads = Annotated[int | None, _count("Threads of torch. The default is torch's own choice.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Small sizes, to see that it runs. The ratios of small networks say little.")
]
Channels = Annotated[int | None, _count("Channels of the first cells.", "C")]
Cells = Annotated[int | None, _count("Cells in all, in spaces that count them so, such as darts.")]
CellsPerStage = Annotated[
    int | None, _count("Cells of each stage, in spaces that count them so, such as nas-bench-201.")
]
BatchOption = Annotated[int | None, _count("Images of a batch.")]
Size = Annotated[int | None, _count("Height and width of an image. The default is 32.", "PIXELS")]
Spaces = Annotated[
    list[str] | None,
    typer.Option("--space", metavar="NAME", help="See `smallgroup list spaces`; may stand several times."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="NAME", help="See `smallgroup list methods`; may stand several times."),
]
Groups = Annotated[
    list[int] | None,
    typer.Option("--learners", parser=options.whole_number, metavar="K", help="May stand several times."),
]
Modes = Annotated[
    list[str] | None,
    typer.Option("--hypergradient", metavar="first-order|finite-difference|exact", help="May stand several times."),
]


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Without a command: what there is."""
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
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Whole steps, in the textbook form and as in a search.

    Without options: two DARTS learners at the size of the paper (first-order and finite differences), NAS-Bench-201
    supernets, four learners beside two, and a training step of the network of DARTS_V2. That takes a quarter of an hour
    or more; --quick a minute. With --method, --space, --learners or --hypergradient: every combination of what is
    given. Sizes hold for every row that has them.

    Rows have the medians of both forms, their ratio with the lowest and highest of a round, by how much the two
    differed in the losses of their first step, and the fast time in units of the first row's.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, quick=quick, as_json=json)
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
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Every operation of every space that builds single operations, by itself.

    With the strides that a space has: output, and gradients of input and weights. By default 16 channels and a batch of
    32 images of 32x32, as at the beginning of a supernet.
    """
    from smallgroup.bench import operation  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, quick=quick, as_json=json)
    sizes = given_options(channels=channels, batch=batch, size=size)
    cases = operation.every_operation(**asked.sized(sizes, operation.QUICK))
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.operations(cases, asked)


@app.command()
def scaling(
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="learners|batch|cells|channels", help="What grows; may stand several times. The default is all."
        ),
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
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """How a step grows with learners, batch, cells and channels.

    The fast step, of 1 to 8 learners, and of one to four times the batch, the cells and the channels.

    For each the exponent e of seconds = c size^e, by least squares of the logarithms: 1 is in proportion. Sizes that
    are given are those the others grow from. A learner alone takes another step than one in a group: K = 1 is shown,
    and the exponent is that of 2 to 8.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, rounds, threads, quick=quick, as_json=json)
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
    quick: Quick = False,
    json: options.Json = False,
) -> None:
    """Peak memory of a step, fast and plain.

    It is what a step takes beyond what the process had before its first one; the ratio is fast / plain. Each
    form has a process of its own. Without options: two DARTS learners at the size of the paper, first-order, for which
    the plain form needs several gigabytes.
    """
    from smallgroup.bench import plans  # noqa: PLC0415
    from smallgroup.cli.bench_asked import BenchRequest  # noqa: PLC0415

    asked = BenchRequest(path, None, threads, quick=quick, as_json=json)
    which = given_options(space=space, method=method, learners=learners, hypergradient=hypergradient)
    sizes = given_options(channels=channels, cells=cells, cells_per_stage=cells_per_stage, batch=batch, size=size)
    cases = plans.combined(which, asked.sized(sizes, plans.QUICK))
    from smallgroup.cli import bench_display  # noqa: PLC0415

    bench_display.memory(cases, asked)


@app.command()
def outcome(
    *,
    out: Annotated[
        Directory, typer.Option(metavar="DIR", help="Where outcomes are kept, and found again.")
    ] = Directory("outcome"),
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only tables with this in their name.")] = "",
    workers: Annotated[
        int, typer.Option(parser=options.whole_number, metavar="N", help="Processes side by side, of one thread each.")
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is left to measure.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes, to see that it runs.")] = False,
    json: options.Json = False,
) -> None:
    """Whole runs against other uses of the same CPU time.

    On digits, CIFAR-10, CIFAR-100 and drawn clothes, paired by seed: `run`, an independent pair in place of the group,
    random cells, the best of many by scores without training, random cells through the same play-off, a plain CNN and
    a ResNet. Everything an arm does is counted. The whole takes about 30 hours of CPU time; it goes on where it was
    stopped.
    """
    from smallgroup.bench.outcome.tasks import check_asked  # noqa: PLC0415

    check_asked(out, only, workers, quick=quick)
    from smallgroup.cli import bench_outcome  # noqa: PLC0415

    bench_outcome.run(out, only, workers, quick=quick, dry_run=dry_run, as_json=json)
