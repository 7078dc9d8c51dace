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
    """Take SIGINT and SIGTERM as a request to save and end; a second one has its usual effect."""
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield ending
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: FrameType | None) -> None:
        ending.signal = signal.Signals(number)
        for each in before:
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
