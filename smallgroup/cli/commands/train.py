"""The options of `train` and `mutual`."""

from typing import Annotated

import typer

from smallgroup.cli import options
from smallgroup.cli.given import options_of_run, training_section


def train(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE|RUN",
            help="The folder of a search, whose cell, data and seed are used; or a published name, a file, "
            "or the text of a genotype. Several are trained together, one network each.",
        ),
    ],
    *,
    learners: options.Networks = None,
    lam: options.Lambda = None,
    unlabeled: options.Unlabeled = None,
    controls: options.Controls = False,
    dataset: options.Dataset = None,
    data_root: options.DataRoot = None,
    size: options.Size = None,
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
    json: options.Json = False,
) -> None:
    """Train a cell, or several as a group, from scratch, and test it.

    The test set is used once, after the last epoch. Training uses all training images, also those that validated the
    search.
    The folder (default: `training` in the search's folder) contains config.yaml, metrics.jsonl, checkpoints,
    genotype.json, result.json with errors by class and the confusion matrix, and the model.

    With --learners K, or several genotypes, K networks learn from the labels and, on unlabeled images, from one
    another. The one with the lowest validation loss is kept. Given the folder of a search with K learners, each network
    has the cell of one of them.

    Under torchrun each rank computes a slice of every batch of one network (docs/scaling.md).
    """
    from smallgroup.cli import early, launching  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    networks = len(genotypes) if learners is None and len(genotypes) > 1 else learners
    training = training_section(
        track_test,
        learners=networks,
        lam=lam,
        max_parameters=max_parameters,
        max_multiply_adds=max_multiply_adds,
        max_flash_kb=max_flash_kb,
        max_ram_kb=max_ram_kb,
        max_latency_ms=max_latency_ms,
    )
    given = options_of_run(
        dataset=dataset,
        unlabeled=unlabeled,
        data_root=data_root,
        size=size,
        seed=seed,
        recipe=recipe,
        device=device,
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
    wanted = launching.restarted(early.with_folder(genotypes[0], wanted))

    def check() -> None:
        early.check_training(genotypes, wanted, controls=controls)

    def act() -> None:
        from smallgroup.cli.train import run as carry_out  # noqa: PLC0415 -- it loads torch

        carry_out(genotypes, wanted, controls=controls, as_json=json)

    launching.carry_out(launching.asked("train", wanted, genotypes=genotypes, controls=controls), check, act)


def mutual(
    genotypes: Annotated[
        list[str],
        typer.Argument(
            metavar="GENOTYPE|RUN",
            help="As in `smallgroup train`. If the first is a search folder, its data and seed are used.",
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
    device: options.Device = None,
    on_nonfinite: options.OnNonfinite = None,
    skip_bad_images: options.SkipBadImages = False,
    json: options.Json = False,
) -> None:
    """Train networks together by deep mutual learning.

    A baseline without architecture search: networks of given cells learn from the labels and from the predictions of
    one another, on the same batches. The folder contains config.yaml, peers.json, metrics.jsonl, checkpoints,
    result.json and a model in each of `learner-0`, `learner-1`, ... As a control, the same networks are then trained
    with weight 0 from the same initial weights, in its folder `alone`.
    """
    from smallgroup.cli import early, launching  # noqa: PLC0415
    from smallgroup.cli.wanted import Wanted  # noqa: PLC0415

    given = options_of_run(
        dataset=dataset,
        data_root=data_root,
        seed=seed,
        recipe=recipe,
        device=device,
        on_nonfinite=on_nonfinite,
        skip_bad_images=skip_bad_images or None,
    )
    wanted = Wanted(given, changes or (), config, out, None, None, resume=resume, allow_drift=allow_drift)
    wanted = launching.restarted(wanted)

    def check() -> None:
        early.check_mutual(genotypes, wanted, learners, weight)

    def act() -> None:
        group = early.check_mutual(genotypes, wanted, learners, weight)
        from smallgroup.cli.mutual import run as carry_out  # noqa: PLC0415 -- it loads torch

        carry_out(genotypes, group, wanted, as_json=json)

    asked = launching.asked("mutual", wanted, genotypes=genotypes, learners=learners, weight=weight)
    launching.carry_out(asked, check, act)
