"""A request to end: the first one is granted at the next step, the second at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Ending:
    """Whether somebody asked the run to end, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def watched() -> Iterator[Ending]:
    """Take SIGINT, SIGTERM and SIGHUP as a request to save and end; a second SIGINT or SIGTERM has its usual effect.

    A terminal that goes away may send SIGHUP several times, and a system that ends a session SIGTERM as well: SIGHUP is
    granted like the others but never counts as the first or the second request. Where it was ignored before, as
    `nohup` does, it stays ignored.
    """
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield ending
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]

    def note(number: int, _: FrameType | None) -> None:
        ending.signal = ending.signal or signal.Signals(number)
        if number != signal.SIGHUP:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
