"""The processes of one job: rank 0 leads and alone writes files, the others compute their part of what it asks for.

Everything here travels over gloo between CPUs, as bytes and integers; what a step exchanges is not here but in
`smallgroup.group`.
"""

import ctypes
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from smallgroup.runtime.launch import Launch
from smallgroup.runtime.tensor_files import tensor_bytes, tensors_of

HANGING = timedelta(minutes=30)
"""How long a rank waits in a step for one that hangs. One that dies is noticed at once."""
IDLE = timedelta(days=365)
"""How long ranks wait for rank 0, which may train a network alone in the meantime."""
MEETING = timedelta(minutes=5)
"""How long ranks wait for each other at the start."""
CONNECT = timedelta(seconds=60)
"""How long a rank tries to reach the store of torchrun, which was there before it; without it torchrun is gone."""
LONGEST_TEXT = 1_000
"""Characters of an error that the other ranks are told."""


class Vote(NamedTuple):
    """The message of a rank between two steps."""

    signal: int = 0
    """The signal that asked it to end; 0 for none."""
    save: bool = False
    """Whether a checkpoint is due; that of rank 0 counts."""
    failed: int = 0
    """Whether the run cannot go on: 0, `IN_STEP` or `BETWEEN_STEPS`."""


IN_STEP, BETWEEN_STEPS = 1, 2
"""Where a rank failed: a step can be undone on all ranks, what happens between two steps cannot."""


class LostRankError(RuntimeError):
    """Another rank has failed or died."""


class TornStepError(LostRankError):
    """A step has failed on this rank where the others cannot be told: they see it when this process ends."""


class World:
    """All processes of a job. This one is the only one; `Ranks` has more."""

    rank, ranks = 0, 1
    ending = False
    """Whether all ranks know that they end now, because of a signal or a failure."""

    def see_off(self) -> None:
        """Wait for the end of rank 0, if all ranks end: whoever launched them ends it when it sees another one end."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which leads."""
        return self.rank == 0

    def tell(self, message: Mapping[str, Any] | None) -> None:
        """Tell all others, who `hear`, what comes next; None: nothing does. For rank 0 alone."""

    def hear(self) -> dict[str, Any] | None:
        """Wait for what rank 0 tells."""
        raise RuntimeError("rank 0 sends, so it cannot receive")

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order."""
        return [text]

    def pass_on(self, state: "JobState | None") -> "JobState | None":
        """Return the state that rank 0 gives, on every rank."""
        return state

    def vote(self, own: Vote) -> Vote:
        """Return what all ranks do between two steps, which is the same on every rank."""
        return own

    @contextmanager
    def together(self) -> Iterator[None]:
        """Fail on all ranks if one fails inside; who waits for other ranks inside must fail when they do."""
        try:
            yield
        except Exception as error:
            self.gather(_as_text(error))
            self.ending = True
            raise
        for rank, text in enumerate(self.gather("")):
            if text:
                self.ending = True
                raise _from_text(rank, text)

    def check_same(self, what: str, own: str) -> None:
        """Refuse to go on if a rank has something else than rank 0."""
        found = self.gather(own)
        for rank, text in enumerate(found):
            if text != found[0]:
                self.ending = True
                raise ValueError(f"all ranks must have the same {what}, but rank 0 and rank {rank} differ")


class JobState(NamedTuple):
    """The state from which a job is resumed."""

    tensors: Mapping[str, Tensor]
    record: Mapping[str, Any]


class Ranks(World):
    """Several processes, in a gloo group of their own that waits for as long as it takes."""

    def __init__(self, group: distributed.ProcessGroup) -> None:
        self.rank, self.ranks = distributed.get_rank(group), distributed.get_world_size(group)
        self._group = group

    def see_off(self) -> None:
        """Wait for the end of rank 0, if all ranks end."""
        if self.ending and not self.is_first:
            with suppress(RuntimeError):
                self._received()  # nothing comes, but the connection is closed

    def tell(self, message: Mapping[str, Any] | None) -> None:
        """Tell all others, who `hear`, what comes next."""
        self._send(json.dumps(message).encode())

    def hear(self) -> dict[str, Any] | None:
        """Wait for what rank 0 tells."""
        heard = json.loads(self._received())
        return heard if heard is None else dict(heard)

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order."""
        own = text.encode()
        sizes = self._gathered(torch.tensor([len(own)]))
        most = max(int(size) for size in sizes)
        padded = torch.frombuffer(bytearray(own.ljust(most + 1, b"\0")), dtype=torch.uint8)
        parts = self._gathered(padded) if most else [padded] * self.ranks
        return [
            part[: int(size)].numpy().tobytes().decode(errors="replace")
            for part, size in zip(parts, sizes, strict=True)
        ]

    def pass_on(self, state: JobState | None) -> JobState | None:
        """Return the state that rank 0 gives, on every rank."""
        if self.is_first:
            self.tell(None if state is None else dict(state.record))
            if state is not None:
                self._send(tensor_bytes(state.tensors))
            return state
        record = self.hear()
        return None if record is None else JobState(tensors_of(self._received()), record)

    def vote(self, own: Vote) -> Vote:
        """Return what all ranks do: end if one was asked to, save if rank 0 says so, fail if one has failed."""
        try:
            votes = [Vote(*part.tolist()) for part in self._gathered(torch.tensor([int(value) for value in own]))]
        except RuntimeError as error:
            raise LostRankError(
                "a rank has died, so the others end without writing a checkpoint; --resume continues from the "
                "newest one"
            ) from error
        asked = next((vote.signal for vote in votes if vote.signal), 0)
        failures = [vote.failed for vote in votes]
        self.ending = bool(asked or any(failures))
        if any(failures):
            # A step that failed on every rank has changed nothing on any of them; else nobody knows what they have.
            alike = len(set(failures)) == 1 or (failures[0] == BETWEEN_STEPS and not any(failures[1:]))
            return Vote(asked, bool(votes[0].save and alike), max(failures))
        return Vote(asked, bool(votes[0].save or asked), 0)  # who is asked to end saves

    def _gathered(self, own: Tensor) -> Sequence[Tensor]:
        found = [torch.empty_like(own) for _ in range(self.ranks)]
        distributed.all_gather(found, own, group=self._group)
        return found

    def _send(self, content: bytes) -> None:
        distributed.broadcast(torch.tensor([len(content)]), group=self._group, group_src=0)
        distributed.broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), group=self._group, group_src=0)

    def _received(self) -> bytes:
        distributed.broadcast(size := torch.zeros(1, dtype=torch.int64), group=self._group, group_src=0)
        content = torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(content, group=self._group, group_src=0)
        return content.numpy().tobytes()


_ALONE = World()
_current: ContextVar[World] = ContextVar("world", default=_ALONE)


def current() -> World:
    """Return the processes that share the jobs of this one: itself alone, unless it was launched with others."""
    return _current.get()


@contextmanager
def joined(launch: Launch) -> Iterator[World]:
    """Meet the other processes that `torchrun` has started, and leave them at the end.

    Tables travel over nccl where there is a GPU for every process of a machine, and over gloo elsewhere.
    """
    _end_with_launcher()
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus:
        torch.cuda.set_device(launch.local_rank % gpus)
    # nccl refuses two processes on one GPU.
    backend = "nccl" if gpus >= launch.local_ranks and distributed.is_nccl_available() else "gloo"
    distributed.init_process_group(
        backend, store=_store(launch), rank=launch.rank, world_size=launch.ranks, timeout=HANGING
    )
    group = distributed.new_group(backend="gloo", timeout=IDLE)
    token = _current.set(Ranks(group))
    try:
        yield current()
    finally:
        _current.reset(token)
    distributed.destroy_process_group()  # not after an error: the others see by the connection whether rank 0 has ended


def _store(launch: Launch) -> Any:  # noqa: ANN401 -- torch does not export the type
    """Return the store where processes find each other. After a restart, torchrun's still has the old addresses."""
    has_server = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    leads = launch.is_first and not has_server
    timeout = CONNECT if has_server else MEETING
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host, port, launch.ranks, is_master=leads, timeout=timeout
    )
    store.set_timeout(MEETING)
    return distributed.PrefixStore(f"smallgroup/{launch.restarts}", store)  # type: ignore[attr-defined]


def _end_with_launcher() -> None:
    """Let the system ask this process to save and end when torchrun is killed, which would leave it behind."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        with suppress(OSError, AttributeError):  # not Linux
            ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG


def _as_text(error: Exception) -> str:
    kind = "input" if isinstance(error, ValueError | OSError) else "failure"
    return f"{kind}:{error}"[:LONGEST_TEXT]


def _from_text(rank: int, text: str) -> Exception:
    kind, _, words = text.partition(":")
    return (ValueError if kind == "input" else LostRankError)(f"rank {rank}: {words}")
