"""Reads that go wrong, for a process of their own: without torch, which takes long to import."""

import signal
import time


def never(_: str) -> None:
    """Read something that never ends, in a way in which no thread could be ended."""
    while True:
        time.sleep(60)


def ended(_: str) -> None:
    """End as a process does that takes too much memory."""
    signal.raise_signal(signal.SIGKILL)
