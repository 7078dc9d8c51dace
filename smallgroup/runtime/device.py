"""Where a run computes: one device, chosen by its name, in use for a block of code."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch.nn import functional

from smallgroup.runtime.device_names import AUTO, NoDeviceError, check_device_name, check_possible
from smallgroup.runtime.launch import launched
from smallgroup.runtime.memory import available_memory, physical_memory
from smallgroup.runtime.text import shown

CPU = torch.device("cpu")
_in_use: ContextVar[torch.device] = ContextVar("device", default=CPU)


def choose_device(name: str = AUTO, before: str | None = None) -> torch.device:
    """Return the device that a name stands for, which must be there.

    `auto` is the device of `before`, if it names one that is there: a run is resumed where it was begun. Else it is the
    first CUDA device, else the CPU. It is never mps: there single operations are missing, and nothing here was run.
    Under `torchrun` the local rank says which of several CUDA devices `auto` and `cuda` are.
    """
    check_device_name(name)
    check_possible(name)
    present = _present()
    if name == AUTO:
        earlier = "" if before is None else before.partition(" ")[0]
        wanted = earlier if earlier in ("cpu", "cuda", "mps") else "cuda"
        found = [device for device in present if device.type == wanted]
        return found[_place() % len(found)] if found else CPU
    asked = torch.device(name)
    if asked.type == "cuda" and asked.index is None:
        asked = torch.device("cuda", _place() % max(1, sum(device.type == "cuda" for device in present)))
    if asked not in present:
        names = ", ".join(map(str, present))
        raise NoDeviceError(f"device {name} must be available, but this machine has {names}")
    return asked


def _place() -> int:
    """Return the index of this process among those of this machine; 0 if it is alone."""
    launch = launched()
    return 0 if launch is None else launch.local_rank


def describe_device(device: torch.device) -> str:
    """Return a device as results record it: its type, and which model it is, on which bits depend."""
    if device.type != "cuda":
        return device.type
    return f"cuda ({torch.cuda.get_device_name(device)})"


@contextmanager
def using(device: torch.device) -> Iterator[torch.device]:
    """Make jobs of this block compute on a device."""
    token = _in_use.set(device)
    try:
        yield device
    finally:
        _in_use.reset(token)


def current() -> torch.device:
    """Return the device in use: the CPU, unless another was chosen."""
    return _in_use.get()


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all that it was asked for, as a clock must; the CPU always has."""
    if device.type != "cpu":
        torch.zeros((), device=device).item()  # comes after everything else on the stream, whatever the backend


# What there is to know about devices.


@dataclass(frozen=True)
class DeviceRecord:
    """A device of this machine; memory in bytes, None where it is not known."""

    name: str
    about: str
    memory: int | None
    free: int | None
    tried: str
    """What was computed on it, and what came of it."""
    works: bool


def list_devices() -> list[DeviceRecord]:
    """Return every device of this machine, each after a small computation on it."""
    return [_record(device) for device in _present()]


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a device can still give, if it says so."""
    if device.type == "cpu":
        return available_memory()
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None


def _memory_of(device: torch.device) -> int | None:
    if device.type == "cpu":
        return physical_memory()
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def memory_held(device: torch.device) -> int:
    """Return the bytes that tensors of this process have on a device other than the CPU."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def peak_memory_on(device: torch.device) -> int | None:
    """Return the most bytes that tensors of this process ever had on a device, if it says so."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def _present() -> list[torch.device]:
    found = [CPU]
    if torch.cuda.is_available():
        found += [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(torch.device("mps"))
    return found


def _record(device: torch.device) -> DeviceRecord:
    memory = _memory_of(device)
    try:
        difference = try_device(device)
    except Exception as error:  # whatever a driver says, it is reported
        return DeviceRecord(
            str(device), describe_device(device), memory, free_memory(device), shown(error), works=False
        )
    tried = f"a convolution and its gradient, {difference:.0e} from the CPU's"
    return DeviceRecord(
        str(device), describe_device(device), memory, free_memory(device), tried, works=difference < _TOLERANCE
    )


_TOLERANCE = 1e-2
"""How far a small convolution may be off: devices may compute it in fewer bits."""


def try_device(device: torch.device) -> float:
    """Compute a small convolution and its gradient; return how far they are from those of the CPU, relatively."""

    def gradient(where: torch.device) -> torch.Tensor:
        x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8).to(where)
        weight = torch.linspace(-1, 1, 4 * 3 * 3 * 3).view(4, 3, 3, 3).to(where).requires_grad_()
        functional.conv2d(x, weight, padding=1).square().mean().backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        return weight.grad.cpu()

    expected = gradient(CPU)
    return float((gradient(device) - expected).abs().max() / expected.abs().max())
