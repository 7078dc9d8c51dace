"""Processes that decode image files ahead of need.

A worker is this interpreter running `decoding.py` alone: it knows no torch, shares no memory, needs no guard in the
user's script and ends when its input is closed, also when the process that started it is killed. A thread per worker
does the talking.
"""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TypeVar

import torch
from torch import Tensor

from smallgroup.data import decoding
from smallgroup.data.errors import DataError, WorkerError, reason
from smallgroup.runtime.text import shown

Request = TypeVar("Request")
Answer = TypeVar("Answer")
AHEAD = 2
"""Requests under way for each worker: one it works on and one whose result waits."""


def answers(
    requests: Iterator[dict[str, object]], workers: int, *, pinned: bool = False
) -> Generator[Tensor, None, None]:
    """Answer requests for pixels in their order by so many processes; closing the iterator ends them.

    Pixels that are `pinned` lie in memory that CUDA copies from while the host goes on.
    """

    def ask(worker: Worker, request: dict[str, object]) -> Tensor:
        pixels = worker.ask(request)
        return pixels.pin_memory() if pinned else pixels

    return asked(requests, workers, ask)


def examinations(
    parts: Iterator[Sequence[str]], workers: int, size: int | None = None
) -> Generator[list[decoding.Examined], None, None]:
    """See `decoding.examined`, for parts of a list of files, by so many processes."""
    return asked(parts, workers, lambda worker, paths: worker.examine(paths, size))


def asked(
    requests: Iterator[Request], workers: int, method: Callable[["Worker", Request], Answer]
) -> Generator[Answer, None, None]:
    """Yield the answers of so many workers in the order of the requests; closing the iterator ends the processes."""
    free: SimpleQueue[Worker] = SimpleQueue()
    team: list[Worker] = []

    def ask(request: Request) -> Answer:
        worker = free.get()
        try:
            return method(worker, request)
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="smallgroup-data")
    pending: deque[Future[Answer]] = deque()
    try:
        for _ in range(workers):
            team.append(Worker())
            free.put(team[-1])
        for request in requests:
            pending.append(pool.submit(ask, request))
            if len(pending) >= AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for worker in team:
            worker.stop()
        pool.shutdown()
        for worker in team:
            worker.close()


class Worker:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        # -P: the folder of the script must not become a place to import from. A session of its own: the user's Ctrl-C
        # is for the process that started it.
        command = [sys.executable, "-P", str(Path(decoding.__file__))]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerError(f"a worker process for decoding images cannot be started: {reason(error)}") from None

    def ask(self, request: dict[str, object]) -> Tensor:
        """Return the pixels of a request; raise one sentence if an image is unreadable or the worker is gone."""
        content = self._reply(request)
        shape = (-1, request["channels"], request["size"], request["size"])
        return torch.frombuffer(content, dtype=torch.uint8).view(shape)  # type: ignore[arg-type]

    def examine(self, paths: Sequence[str], size: int | None) -> list[decoding.Examined]:
        """Decode every file in the worker process, as `decoding.examined` does."""
        found = json.loads(self._reply({"examine": list(paths), "size": size}))
        return [(bool(sound), str(text), list(sums)) for sound, text, sums in found]

    def _reply(self, request: dict[str, object]) -> bytearray:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            sound, length = decoding.REPLY.unpack(_exactly(self.process.stdout, decoding.REPLY.size))
            content = _exactly(self.process.stdout, length)
        except (OSError, EOFError, ValueError):
            with suppress(subprocess.TimeoutExpired):  # its pipes are closed: it is about to end
                self.process.wait(5)
            raise WorkerError(
                f"a worker process for decoding images ended early (exit code {self.process.returncode}); "
                "with workers=0 images are decoded without one"
            ) from None
        if not sound:
            raise DataError(f"image {shown(json.loads(content))}")
        return content

    def stop(self) -> None:
        """End the process, whatever it is doing: what it decodes now nobody waits for."""
        self.process.kill()

    def close(self) -> None:
        """Collect the ended process and its pipes."""
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not yet written to a dead worker
                pipe.close()


def _exactly(pipe: IO[bytes], length: int) -> bytearray:
    content = bytearray(length)
    view, filled = memoryview(content), 0
    while filled < length:
        count = pipe.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        filled += count
    return content
