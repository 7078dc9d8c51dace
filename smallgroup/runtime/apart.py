"""A function called in a process of its own, so that a call that hangs can be ended."""

import json
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from threading import Lock
from typing import Any

PATIENCE = 120.0
"""Seconds until a process must have imported what it needs; torch alone takes some on a busy machine."""


class Apart:
    """Calls a function, which must be importable by name, in one process that serves call after call.

    A call that takes longer than `seconds` is ended together with the process; the next call starts another one. A
    thread cannot be ended, and one that computes in C would keep this process from ending too. Arguments and results
    are what JSON can hold.
    """

    def __init__(self, function: Callable[..., Any], seconds: float) -> None:
        self._function, self._seconds, self._lock = function, seconds, Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._ready = False

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, *arguments: object) -> Any:  # noqa: ANN401 -- what the function gives
        """Call the function and return its result; raise its error as a ValueError. Calls wait for one another."""
        with self._lock:
            try:
                pipe = self._pipe or self.start()
                if not self._ready:
                    _answer(pipe, PATIENCE)
                    self._ready = True
                pipe.send_bytes(json.dumps(arguments).encode())
                answer = json.loads(_answer(pipe, self._seconds))
            except BaseException as error:
                self.close()
                if isinstance(error, EOFError | ConnectionError):
                    raise ValueError("the process that reads it has ended; it may have run out of memory") from None
                raise
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the process, whatever it is doing."""
        process, pipe = self._process, self._pipe
        self._process, self._pipe, self._ready = None, None, False
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()

    def start(self) -> Connection:
        """Start the process; the first call does so where nobody did."""
        context = get_context("spawn")  # a fork of a process with threads may hang
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._function), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        return self._pipe


def _answer(pipe: Connection, seconds: float) -> bytes:
    if not pipe.poll(seconds):
        raise ValueError(f"it takes more than {seconds:g} seconds")
    return pipe.recv_bytes()


def _serve(pipe: Connection, function: Callable[..., Any]) -> None:
    """Answer calls until the process that asks is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    pipe.send_bytes(b"ready")
    while True:
        try:
            arguments = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            answer = {"result": function(*arguments)}
        except Exception as error:
            answer = {"error": " ".join(str(error).split()) or type(error).__name__}
        pipe.send_bytes(json.dumps(answer).encode())
