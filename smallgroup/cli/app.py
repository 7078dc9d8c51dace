"""The commands and their options. What they do is imported when they are called, and their input is sound."""

from pathlib import Path
from typing import Annotated, Any

import typer

from smallgroup.cli import bench, options
from smallgroup.version import __version__

app = typer.Typer(
    name="smallgroup",
    help="Neural architecture search in which a small group of learners teach one another.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markup eats [onnx] and keeps the line breaks of docstrings
    context_settings={"help_option_names": ["-h", "--help"]},
)


PLUGINS: list[str] = []
"""Those of the command line, taken from it before it is parsed."""

app.add_typer(bench.app)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[  # noqa: ARG001 -- taken from the command line before it is parsed, wherever it stands
        bool, typer.Option("--debug", help="Show where an error comes from. May stand anywhere in the line.")
    ] = False,
    plugin: Annotated[  # noqa: ARG001 -- likewise
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import a module, or a file that ends in .py, that registers methods, spaces or data of your own. May "
            "stand anywhere in the line, and several times.",
        ),
    ] = None,
) -> None:
    """What may stand before a command."""
    if version:
        typer.echo(f"smallgroup {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


@app.command()
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


@app.command()
def search(
    *,
    dataset: options.Dataset = None,
    unlabeled: options.Unlabeled = None,
    data_root: options.DataRoot = None,
    size: options.Size = None,
    method: options.Method = None,
    space: options.Space = None,
    learners: options.Learners = None,
    lam: options.Lambda = None,
    hypergradient: options.Hypergradient = None,
    seed: options.Seed = None,
    seeds: options.Seeds = None,
    recipe: options.Recipe = None,
    time_budget: options.TimeBudget = None,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    allow_drift: options.AllowDrift = False,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    tensorboard: options.TensorBoard = False,
    json: options.Json = False,
) -> None:
    """Search a cell with a group of learners that teach one another.

    Without options two DARTS learners search a cell for handwritten digits, in about a minute. What is given here
    stands above --config, and that above the recipe. The run's folder has config.yaml, metrics.jsonl (a line per epoch
    and learner), checkpoints, genotype.json, result.json and report.html. Ctrl-C saves and ends; a second one ends at
    once.
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = _run_given(
        dataset=dataset,
        unlabeled=unlabeled,
        data_root=data_root,
        size=size,
        method=method,
        space=space,
        learners=learners,
        lam=lam,
        hypergradient=hypergradient,
        seed=seed,
        recipe=recipe,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
    )
    wanted = Wanted(
        given,
        changes or (),
        config,
        out,
        seeds,
        time_budget,
        resume=resume,
        allow_drift=allow_drift,
        tensorboard=tensorboard,
    )
    early.check_search(wanted)
    from smallgroup.cli.search import run as carry_out  # noqa: PLC0415

    carry_out(wanted, as_json=json)


@app.command()
def train(
    genotype: Annotated[
        str,
        typer.Argument(
            metavar="GENOTYPE|RUN",
            help="The folder of a search, whose cell, data and seed are taken; or a published name, a file, "
            "or the text of a genotype.",
        ),
    ],
    *,
    dataset: options.Dataset = None,
    data_root: options.DataRoot = None,
    size: options.Size = None,
    seed: options.Seed = None,
    recipe: options.Recipe = None,
    time_budget: options.TimeBudget = None,
    max_parameters: options.MaxParameters = None,
    max_multiply_adds: options.MaxMultiplyAdds = None,
    track_test: options.TrackTest = False,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    allow_drift: options.AllowDrift = False,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    tensorboard: options.TensorBoard = False,
    json: options.Json = False,
) -> None:
    """Train a cell from scratch in a large network, and test it.

    It is tested once, after the last epoch. All training images are used, those of the search's validation part too.
    The folder (by default `training` inside that of the search) has config.yaml, metrics.jsonl, checkpoints,
    genotype.json, result.json with errors by class and the confusion matrix, and the model.
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    training = _training(track_test, max_parameters, max_multiply_adds)
    given = _run_given(
        dataset=dataset,
        data_root=data_root,
        size=size,
        seed=seed,
        recipe=recipe,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
        training=training,
    )
    wanted = Wanted(
        given,
        changes or (),
        config,
        out,
        None,
        time_budget,
        resume=resume,
        allow_drift=allow_drift,
        tensorboard=tensorboard,
    )
    wanted = early.with_folder(genotype, wanted)
    early.check_training([genotype], wanted)
    from smallgroup.cli.train import run as carry_out  # noqa: PLC0415

    carry_out(genotype, wanted, as_json=json)


@app.command()
def mutual(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE|RUN",
            help="Each as in `smallgroup train`. Data and seed are those of the first, if it is a search's folder.",
        ),
    ],
    *,
    learners: options.Peers = None,
    weight: options.Weight = None,
    dataset: options.Dataset = None,
    data_root: options.DataRoot = None,
    seed: options.Seed = None,
    recipe: options.Recipe = None,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    allow_drift: options.AllowDrift = False,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    json: options.Json = False,
) -> None:
    """Train networks together by deep mutual learning.

    A baseline without architecture search: networks of given cells learn the labels and the answers of one another, on
    the same batches. The folder has config.yaml, peers.json, metrics.jsonl, checkpoints, result.json and a model in
    `learner-0`, `learner-1`, ... As the control, the same networks are then trained alone, from the same initial
    weights with weight 0, in `alone` within it.
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = _run_given(
        dataset=dataset,
        data_root=data_root,
        seed=seed,
        recipe=recipe,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
    )
    wanted = Wanted(given, changes or (), config, out, None, None, resume=resume, allow_drift=allow_drift)
    early.check_training(genotypes, wanted)
    group = early.peers_of(genotypes, wanted, learners, weight)
    from smallgroup.cli.mutual import run as carry_out  # noqa: PLC0415

    carry_out(genotypes, group, wanted, as_json=json)


@app.command()
def run(
    *,
    dataset: options.Dataset = None,
    unlabeled: options.Unlabeled = None,
    data_root: options.DataRoot = None,
    size: options.Size = None,
    method: options.Method = None,
    space: options.Space = None,
    learners: options.Learners = None,
    lam: options.Lambda = None,
    hypergradient: options.Hypergradient = None,
    seed: options.Seed = None,
    recipe: options.Recipe = None,
    time_budget: options.TimeBudget = None,
    max_parameters: options.MaxParameters = None,
    max_multiply_adds: options.MaxMultiplyAdds = None,
    track_test: options.TrackTest = False,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    allow_drift: options.AllowDrift = False,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    tensorboard: options.TensorBoard = False,
    answer: options.Answer = None,
    baselines: options.Baselines = None,
    json: options.Json = False,
) -> None:
    """Search, train what was found, and compare it with baselines.

    Networks are trained from scratch. Without options, handwritten digits: a few minutes. The folder is that of the
    search, with the trainings in `training`, `resnet` and `random`. A time budget is for everything together: the
    search takes 12 % at most, and what is left is shared between the play-off and the trainings. The size of the
    network follows the time. Baselines have about the same multiply-adds and are trained with the same settings for
    the same number of steps.
    """
    from smallgroup.cli import early  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = _run_given(
        dataset=dataset,
        unlabeled=unlabeled,
        data_root=data_root,
        size=size,
        method=method,
        space=space,
        learners=learners,
        lam=lam,
        hypergradient=hypergradient,
        seed=seed,
        recipe=recipe,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
        training=_training(track_test, max_parameters, max_multiply_adds),
    )
    wanted = Wanted(
        given,
        changes or (),
        config,
        out,
        None,
        time_budget,
        resume=resume,
        allow_drift=allow_drift,
        tensorboard=tensorboard,
    )
    beside, rule = early.baselines_of(baselines), early.answer_of(answer)
    early.check_search(wanted)
    from smallgroup.cli.run import run as carry_out  # noqa: PLC0415

    carry_out(wanted, beside, rule, as_json=json)


@app.command()
def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A study of `smallgroup list studies`, or a file like those.")
    ],
    *,
    recipe: options.Recipe = None,
    seeds: Annotated[str | None, typer.Option(metavar="1-10", help="Other seeds than the study's; also 1,4,7.")] = None,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only rows with this in their name.")] = "",
    changes: options.Changes = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes, of one thread each.")] = 1,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where runs and tables are kept: a new or empty folder, or one of studies."),
    ] = Path("studies"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, and how long they would take.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try runs again that failed before.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="A line for every run that begins or ends.")] = False,
    json: options.Json = False,
) -> None:
    """Carry out a grid of runs and print its table.

    Runs are known by their config: one that is complete is never repeated, by this study or another one in the same
    folder, and a study that was stopped goes on. Ctrl-C saves and ends. Beside the table there are files of it
    (Markdown, CSV, LaTeX, JSON) and figures (SVG, PDF).
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_study(name, recipe, seeds, changes or (), workers)
    from smallgroup.cli.study import Asked, run  # noqa: PLC0415

    run(
        Asked(
            name,
            out,
            recipe=recipe,
            seeds=seeds,
            only=only,
            changes=tuple(changes or ()),
            workers=workers,
            dry_run=dry_run,
            retry=retry,
            lines=lines,
            as_json=json,
        )
    )


@app.command()
def report(
    runs: options.Runs,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page. The default is report.html in the first run.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every drawing and figure as SVG.")] = None,
    pdf: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every drawing and figure as PDF.")] = None,
    json: options.Json = False,
) -> None:
    """Draw runs as one page that opens anywhere, without a network.

    Of one run: what it found, cells through the epochs, curves, who taught whom, disputed images, time, config. Of
    several: a table, their curves in one chart, and what the group contributed where one of them is the same search
    with lambda = 0. Every run draws its own page when it ends.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_runs(runs)
    from smallgroup.cli.report import run as carry_out  # noqa: PLC0415

    carry_out(runs, out, svg, pdf, as_json=json)


@app.command()
def show(run: options.OneRun, json: options.Json = False) -> None:
    """Print the numbers, the cell and the curves of a run."""
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_runs([run])
    from smallgroup.cli.show import run as carry_out  # noqa: PLC0415

    carry_out(run, as_json=json)


@app.command()
def watch(
    run: options.OneRun,
    port: Annotated[
        int, typer.Option(parser=options.whole_number, metavar="NUMBER", help="0, the default: one that is free.")
    ] = 0,
) -> None:
    """Serve the page of a run, updated while the run goes.

    It is served on this machine alone. Ctrl-C ends it.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_runs([run])
    from smallgroup.cli.watch import run as carry_out  # noqa: PLC0415

    carry_out(run, port)


@app.command()
def predict(
    run: options.Model,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE|FOLDER", help="Image files, and folders of them.")],
    top: Annotated[
        int,
        typer.Option(parser=options.whole_number, metavar="N", help="How many classes per image, the likeliest first."),
    ] = 1,
    json: options.Json = False,
) -> None:
    """Classify image files with a trained model.

    An image is seen as test images are: its centre, in the size, channels and scale of the model. Of a folder, all
    images below it are classified, sorted by name. A file that cannot be used gets a line that says why; the others
    are classified all the same, and the exit code is 1.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_predict(run, top)
    from smallgroup.cli.predict import run as carry_out  # noqa: PLC0415

    carry_out(run, images, top, as_json=json)


@app.command()
def export(
    run: options.Model,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="onnx|pt2",
            help="ONNX (needs `pip install 'smallgroup[onnx]'`), torch.export, or one of `smallgroup list exporters`.",
        ),
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file. The default is model.onnx or model.pt2 in the run.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a trained model as one file for other programs.

    A model card is written beside it. Classes, image size and normalisation stand inside the file. It is compared with
    the trained model on random images before it is written. A pt2 file of ours has no pickle in it; loading one of a
    stranger can run code.
    """
    from smallgroup.cli import early  # noqa: PLC0415

    early.check_export(run, format_)
    from smallgroup.cli.export import run as carry_out  # noqa: PLC0415

    carry_out(run, format_, out, as_json=json)


def _training(track_test: bool, max_parameters: int | None, max_multiply_adds: int | None) -> dict[str, Any] | None:
    """The section `training` out of options of its own."""
    track = True if track_test else None
    return _given(track_test=track, max_parameters=max_parameters, max_multiply_adds=max_multiply_adds) or None


def _run_given(**values: Any) -> dict[str, Any]:  # noqa: ANN401
    """The options of a run that were given, and the plugins that it needs."""
    return _given(**values, plugins=PLUGINS or None)


def _given(**values: Any) -> dict[str, Any]:  # noqa: ANN401
    """The options that were given."""
    return {key: value for key, value in values.items() if value is not None}


@app.command("list")
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
            help="Of rows: how many days each takes on this machine. Measured once, a few minutes, and then kept.",
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

    options_ = _given(recipe=recipe, dataset=dataset, method=method, space=space, learners=learners)
    given = options_ if config is None else overlaid(load(config), options_)
    run(what, as_json=json, estimate=estimate, given=given, changes=changes or ())


@app.command()
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


for command in app.registered_commands:
    command.epilog = "--debug and --plugin MODULE may stand anywhere in the line: see `smallgroup --help`."
