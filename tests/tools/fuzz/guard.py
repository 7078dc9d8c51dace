"""One input at a time, watched: what a reader makes of it, how long it takes, and what it does meanwhile."""

import hashlib
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from smallgroup.runtime import seed_of
from smallgroup.runtime.memory import peak_memory
from tests.tools.fuzz.readers import Reader

SECONDS = 3.0
"""Of the processor, that an input of at most a few thousand bytes may take."""
BYTES = 300 * 2**20
"""That the process may grow by."""
LONGEST = 2_000
"""Characters of a refusal."""
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.truncate",
    "shutil.rmtree",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
    "ctypes.dlopen",
    "import",
)
"""What Python reports of a process (`sys.audit`) that no reader does on behalf of a file."""
CHUNK = 1_000
"""Inputs that are drawn in one go: hypothesis remembers what it has tried."""


@dataclass
class Tally:
    """What came of the inputs of a reader."""

    tried: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    defects: list[str] = field(default_factory=list)


class _Watch:
    """Notes what is done while a reader is at work; Python has no way to take a hook back, so that there is one."""

    def __init__(self) -> None:
        self.active = False
        self.seen: list[str] = []
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        code = getattr(arguments[0], "co_filename", "") if event == "exec" and arguments else ".py"
        if event == "import" and str(arguments[0]).startswith("encodings."):  # Python's own, when first needed
            return
        if event in FORBIDDEN or not str(code).endswith(".py"):
            self.seen.append(f"{event} {str(arguments)[:200]}")


_watch: list[_Watch] = []


def fuzz(reader: Reader, inputs: int, number: int = 0) -> Tally:
    """Try a reader on so many inputs; the same ones for the same number."""
    if not _watch:
        _watch.append(_Watch())
    tally = Tally()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for example in reader.sound:  # also imports what is imported when it is first needed
            reader.read(example, folder)
        while tally.tried < inputs:
            before = tally.tried
            _draw(reader, min(CHUNK, inputs - before), seed_of(number, reader.name, before), folder, tally)
            if tally.tried == before:
                break
    return tally


def _draw(reader: Reader, inputs: int, number: int, folder: Path, tally: Tally) -> None:
    @settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(number)
    @given(reader.inputs)
    def each(value: Any) -> None:
        _try(reader, value, folder, tally)

    each()


def _forget_peak() -> None:
    """The most memory that the process ever had is counted anew, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _try(reader: Reader, value: Any, folder: Path, tally: Tally) -> None:
    watch, wrong = _watch[0], ""
    _forget_peak()
    before, start = peak_memory(), time.process_time()
    watch.seen, watch.active = [], True
    try:
        reader.read(value, folder)
        tally.accepted += 1
    except reader.refuses as error:
        tally.refused += 1
        text = str(error)
        if not text.strip() or len(text) > LONGEST:
            wrong = f"a message of {len(text):,} characters"
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        watch.active = False
    seconds, grown = time.process_time() - start, peak_memory() - before
    tally.tried, tally.slowest = tally.tried + 1, max(tally.slowest, seconds)
    if watch.seen:
        wrong = f"it did {watch.seen[0]}"
    elif seconds > SECONDS:
        wrong = f"{seconds:.1f} s"
    elif grown > BYTES:
        wrong = f"{grown / 2**20:,.0f} MB"
    if wrong:
        shown = value if isinstance(value, bytes) else repr(value).encode(errors="backslashreplace")
        digest = hashlib.sha256(shown).hexdigest()[:8]
        tally.defects.append(f"{wrong}, of an input of {len(shown):,} bytes ({digest}): {shown[:200]!r}")
