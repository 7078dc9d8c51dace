"""How the training of a group ends: the network with the lowest validation loss is kept, with the numbers of all."""

from pathlib import Path
from typing import Any

from smallgroup.phases.training.group_job import GroupJob
from smallgroup.phases.training.result import TrainResult, write_result
from smallgroup.runner import read_rows
from smallgroup.spaces import genotypes
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.genotypes import to_plain


def conclude(job: GroupJob, *, seconds: float, folder: Path) -> TrainResult:
    """Choose by the validation loss, look at the test images once with every network, and write the model.

    The choice comes first, and the test images have no part in it.
    """
    validation = [None if job.data.validation is None else trainee.validate() for trainee in job.taught]
    losses = [0.0 if found is None else found.loss for found in validation]
    retained = losses.index(min(losses))
    tests = [None if job.data.tested is None else trainee.test() for trainee in job.taught]
    rows = list(read_rows(folder / "metrics.jsonl"))
    own = [[row for row in rows if row["learner"] == k] for k in range(len(job.taught))]
    dataset = job.data.dataset
    group: list[dict[str, Any]] = [
        {
            "space": trainee.genotype.space,
            "genotype": to_plain(trainee.genotype),
            "parameters": parameters(trainee.network),
            "multiply_adds": multiply_adds(trainee.network, dataset.size, dataset.channels),
            "train_error": own[k][-1]["train_error"],
            "validation_loss": None if found is None else found.loss,
            "validation_error": None if found is None else found.error,
            "test_error": None if test is None else test.error,
            "test_error_top5": None if test is None else test.error_top5,
        }
        for k, (trainee, found, test) in enumerate(zip(job.taught, validation, tests, strict=True))
    ]
    best = job.taught[retained]
    genotypes.write(folder / genotypes.FILE, best.genotype)
    return write_result(
        best,
        tests[retained],
        own[retained],
        steps=job.step,
        seconds=seconds,
        folder=folder,
        group=group,
        retained=retained,
    )
