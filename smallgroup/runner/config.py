"""The part of a config that is about how a run is carried out."""

from typing import Any, Literal

from pydantic import Field, field_validator

from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.device_names import AUTO, check_device_name
from smallgroup.runtime.precision_names import FULL, Precision
from smallgroup.runtime.section import Section


class RunConfig(Section):
    """The settings of a run that do not change what it computes."""

    device: str = AUTO
    """Device: cpu, cuda, cuda:1, mps, or auto, which is the first CUDA device, else the CPU."""
    threads: int = Field(default=1, ge=1, le=MOST["threads"])
    """Threads of torch; with two on a busy machine small networks are slower than with one."""
    kernels: Literal["auto", "native", "torch", "plain"] = "auto"
    """Kernels: C++ compiled on this machine (native), torch operators (torch), or layer by layer (plain)."""
    precision: Precision = FULL
    """Precision of a search: float32, or with first-order gradients bfloat16 or (CUDA) tf32."""
    checkpoint_minutes: float = Field(default=10.0, ge=0)
    """Minutes between checkpoints within an epoch; one is also written at its end, if the last is two seconds old."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """If a loss or gradient is not finite: stop before the update, or skip and count the batch."""
    most_skipped: int = Field(default=10, ge=1)
    """Most batches skipped in a row; after that the run stops."""

    @field_validator("device")
    @classmethod
    def _device_has_a_name(cls, given: str) -> str:
        return check_device_name(given)

    @property
    def identity(self) -> dict[str, Any]:
        """What a run is known by. What is done about bad numbers may be decided when it has stopped at one.

        The device is part of the environment, as the processor is: another one needs `--allow-drift`.
        """
        later = {"precision"} if self.precision == FULL else set()  # runs of earlier versions do not have the key
        return self.model_dump(mode="json", exclude={"device", "on_nonfinite", "most_skipped", *later})
