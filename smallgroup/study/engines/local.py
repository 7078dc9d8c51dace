"""Workers that are processes of this machine."""

import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence

from smallgroup.runtime.files import open_regular
from smallgroup.study.engines.engine import Workload, environment


class LocalEngine:
    """A process per worker, which ends when this process does."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def check(self) -> None:
        """Do nothing: processes can be started on every machine."""

    def start(self, work: Workload, numbers: Sequence[int]) -> None:
        """Start a process for each worker."""
        for number in numbers:
            with open_regular(work.log(number), "ab") as log:
                # Its input is a pipe that nobody writes to: it ends when this process does, however that happens. And
                # it has a group of its own, so that Ctrl-C reaches it once.
                self._processes[number] = subprocess.Popen(
                    work.command(number),
                    env=environment(),
                    start_new_session=True,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                )

    @property
    def active(self) -> Collection[int]:
        """Return the workers whose end is not known."""
        return tuple(self._processes)

    def poll(self) -> Mapping[int, int]:
        """Return the codes of processes that have ended."""
        ended = {}
        for number, process in list(self._processes.items()):
            if (code := process.poll()) is not None:
                ended[number] = code
                assert process.stdin is not None
                process.stdin.close()
                del self._processes[number]
        return ended

    def stop(self, *, at_once: bool = False) -> None:
        """Send SIGTERM to all workers, or SIGKILL if they must end at once."""
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
