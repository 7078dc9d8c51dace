"""What a checkpoint says of its run, beside the job's own state; read with distrust."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smallgroup.runtime.checkpoints import Checkpoint
from smallgroup.runtime.environment import Environment


class Saved(BaseModel):
    """The runner's part of a checkpoint."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    metrics: Annotated[int, Field(ge=0)]
    """Bytes of metrics that were written."""
    metrics_sha256: str | None = None
    """SHA-256 of those bytes; runs of earlier versions have none."""
    skipped_in_a_row: Annotated[int, Field(ge=0)] = 0
    skipped_in_epoch: Annotated[int, Field(ge=0)] = 0
    """How many batches of the epoch were skipped."""
    seconds: Annotated[float, Field(ge=0)]
    identity: dict[str, Any]
    environment: Environment


def parts_of(found: Checkpoint) -> tuple[Saved, dict[str, Any]]:
    """Return the runner's and the job's part of a checkpoint; refuse one of something else."""
    run, job = found.record.get("run"), found.record.get("job")
    try:
        saved = Saved.model_validate(run)
    except ValidationError:
        saved = None
    if saved is None or not isinstance(job, dict):
        raise ValueError(f"checkpoint {found.step} must be one of a run, but parts of it are missing or wrong")
    return saved, job
