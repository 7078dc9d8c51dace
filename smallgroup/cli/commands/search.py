"""The options of `search` and `run`."""

from smallgroup.cli import options
from smallgroup.cli.given import options_of_run, training_section


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
    device: options.Device = None,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    tensorboard: options.TensorBoard = False,
    json: options.Json = False,
) -> None:
    """Search for a cell with a group of learners.

    The learners teach one another. Without options, two DARTS learners search a cell for handwritten digits, in about a
    minute. Options override --config, and --config overrides the recipe. The run's folder contains config.yaml,
    metrics.jsonl (a line per epoch and learner), checkpoints, genotype.json, result.json and report.html. Ctrl-C saves
    a checkpoint and stops; a second Ctrl-C stops at once.
    """
    from smallgroup.cli import early, launching  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = options_of_run(
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
        device=device,
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
    wanted = launching.restarted(wanted)

    def act() -> None:
        from smallgroup.cli.search import run as carry_out  # noqa: PLC0415 -- it loads torch

        carry_out(wanted, as_json=json)

    launching.carry_out(launching.asked("search", wanted), lambda: early.check_search(wanted), act)


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
    max_flash_kb: options.MaxFlash = None,
    max_ram_kb: options.MaxRam = None,
    max_latency_ms: options.MaxLatency = None,
    track_test: options.TrackTest = False,
    config: options.ConfigFile = None,
    changes: options.Changes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    allow_drift: options.AllowDrift = False,
    device: options.Device = None,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    tensorboard: options.TensorBoard = False,
    answer: options.Answer = None,
    train_learners: options.TrainLearners = None,
    controls: options.Controls = False,
    baselines: options.Baselines = None,
    json: options.Json = False,
) -> None:
    """Search, train what was found, and compare it with baselines.

    Networks are trained from scratch. Without options it uses handwritten digits and takes a few minutes. The folder is
    that of the search, with the trainings in `training`, `resnet` and `random`. A time budget covers everything: the
    search takes at most 12 %, and the play-off and the trainings share the rest. More time allows a larger network.
    Baselines have about the same multiply-adds (with limits in KB, the ResNet is the largest that fits and takes no
    longer) and are trained with the same settings for the same number of steps.
    """
    from smallgroup.cli import early, launching  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = options_of_run(
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
        device=device,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
        training=training_section(
            track_test,
            learners=train_learners,
            max_parameters=max_parameters,
            max_multiply_adds=max_multiply_adds,
            max_flash_kb=max_flash_kb,
            max_ram_kb=max_ram_kb,
            max_latency_ms=max_latency_ms,
        ),
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
    wanted = launching.restarted(wanted)
    beside, rule = early.baselines_of(baselines), early.answer_of(answer)

    def act() -> None:
        from smallgroup.cli.run import run as carry_out  # noqa: PLC0415 -- it loads torch

        carry_out(wanted, beside, rule, controls=controls, as_json=json)

    asked = launching.asked("run", wanted, baselines=beside, answer=rule, controls=controls)
    launching.carry_out(asked, lambda: early.check_whole_run(wanted, controls=controls), act)
