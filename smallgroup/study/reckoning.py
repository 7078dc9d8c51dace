"""How long runs will take that nobody has carried out yet."""

from smallgroup import jobs
from smallgroup.data.errors import DataError
from smallgroup.study.baselines import untrained
from smallgroup.study.plan import PlannedRun


def reckon(run: PlannedRun) -> float | None:
    """Estimate the seconds of a run; None if its data are not here.

    For a training, which cell will be found is not known: it is reckoned with that of an untrained architecture.
    """
    try:
        if run.trains is None:
            return jobs.reckon(run.config)
        return jobs.reckon_training(run.config, untrained(run.trains.config)[0])
    except DataError:
        return None
