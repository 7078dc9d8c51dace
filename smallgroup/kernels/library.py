"""The native kernels as a library: compiled once per machine by torch's extension builder, and kept.

A build happens in a folder of its own and is moved into place when it is whole, so that one that is killed leaves
nothing behind, and several processes that need it build it once.
"""

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

import torch

from smallgroup.kernels.trust import check_own, make_own
from smallgroup.runtime.files import write_whole

SWITCH = "SMALLGROUP_NATIVE"
"""Environment variable: 0 does without the native kernels."""
SOURCES = Path(__file__).parent / "native"
_NAME = "smallgroup_kernels"
_PATIENCE = 900
"""Seconds after which a compiler is given up."""
_INSTRUCTIONS = {
    "AVX2": ["-mavx2", "-mfma", "-mf16c", "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"],
    "AVX512": [
        *("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c"),
        *("-DCPU_CAPABILITY=AVX512", "-DCPU_CAPABILITY_AVX512"),
    ],
}
"""What the compiler must know to use the vectors that torch uses; on other processors its defaults have them."""


class NoKernels(ValueError):
    """The native path was asked for, and cannot be had."""


@cache
def load() -> str | None:
    """Make the operators known to torch, compiling them if need be; None, or in a few words why that failed."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 is set"
    try:
        built = _built()
        torch.ops.load_library(str(built))  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever is wrong with a compiler, there is another path
        return _in_short(error)
    return None


def require() -> None:
    """Refuse to run without the native kernels."""
    problem = load()
    if problem is not None:
        raise NoKernels(f"kernels=native needs kernels compiled on this machine, but {problem}")


@cache
def identity() -> str:
    """Return what the bits of the native path depend on besides the processor: sources, flags and compiler."""
    return json.loads(_sidecar(_place()).read_text(encoding="utf-8"))["identity"]  # type: ignore[no-any-return]


def _flags() -> list[str]:
    instructions = _INSTRUCTIONS.get(torch.backends.cpu.get_cpu_capability(), [])
    threads = [] if sys.platform == "darwin" else ["-fopenmp"]
    return ["-O3", *instructions, *threads]


def _key() -> str:
    """Return the name of a build: it differs by sources, torch and processor."""
    digest = hashlib.sha256(json.dumps([torch.__version__, sys.platform, _flags()]).encode())
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _place() -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache_home) if cache_home else Path.home() / ".cache"
    if not home.is_absolute():  # or the working directory decides which code is loaded
        raise OSError(f"XDG_CACHE_HOME must be an absolute path, but it is {str(home)[:80]!r}")
    return home / "smallgroup" / "kernels" / f"{_key()}.so"


def _sidecar(place: Path) -> Path:
    return place.with_suffix(".json")


def _built() -> Path:
    """Return the compiled library; the first process compiles it, the others wait."""
    place = _place()
    make_own(place.parent)
    if _whole(place):
        return place
    with (place.with_suffix(".lock")).open("a") as lock:
        _wait_for(lock)
        if not _whole(place):
            for left in place.parent.glob(f"{place.stem}-*"):  # by a build that was killed
                shutil.rmtree(left, ignore_errors=True)
            _compile(place)
    return place


def _wait_for(lock: IO[str]) -> None:
    """Wait until nobody else builds; the system releases a lock when its owner ends, however it ends."""
    deadline, told = time.monotonic() + _PATIENCE, False
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(f"another process has been compiling them for {_PATIENCE} s") from None
            if not told:
                print("Waiting for kernels that another process compiles.", file=sys.stderr, flush=True)
            told = True
            # There is no lock with a deadline, so it is tried again; compiling takes seconds.
            time.sleep(0.2)


def _whole(place: Path) -> bool:
    """Return whether the library is there as it was built: a file that was truncated or changed is built again.

    A library is code: one that another user may have written is refused.
    """
    for file in (place, _sidecar(place)):
        if os.path.lexists(file):
            check_own(file)
    try:
        known = json.loads(_sidecar(place).read_text(encoding="utf-8"))
        return isinstance(known["identity"], str) and bool(
            known["sha256"] == hashlib.sha256(place.read_bytes()).hexdigest()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def find_compiler() -> str:
    """Return the program that CXX names; of several words the first one that exists and is no option."""
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    found = [word for word in words if not word.startswith("-") and shutil.which(word) is not None]
    if not found:
        raise OSError(f"there is no C++ compiler ({words[0]})")
    return found[-1]


def _compile(place: Path) -> None:
    compiler = find_compiler()
    print("Compiling kernels, once for this machine: about half a minute.", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{place.stem}-") as folder:
        content = compile_into(Path(folder)).read_bytes()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    # Another compiler may round differently, so it is part of what runs are known by.
    digest = hashlib.sha256(f"{_key()} {version}".encode()).hexdigest()[:8]
    write_whole(place, content)
    # A library that others can write would run their code.
    place.chmod(0o600)
    known = {"identity": digest, "compiler": version.partition("\n")[0], "sha256": hashlib.sha256(content).hexdigest()}
    write_whole(_sidecar(place), json.dumps(known))
    _sidecar(place).chmod(0o600)


def compile_into(
    folder: Path,
    more: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
    source: Path = SOURCES / "library.cpp",
) -> Path:
    """Compile the kernels in a folder, with further flags, and return the library."""
    command = [sys.executable, "-m", "smallgroup.kernels.compiler", str(folder), _NAME, str(source)]
    code, said = _run_bound([*command, *_flags(), *more], {**environment, "CXX": find_compiler()})
    if code != 0:
        raise OSError(f"the compiler failed: {_last_line(said)}")
    return folder / f"{_NAME}.so"


def _run_bound(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a program that ends with this process, however this one ends; its exit code and its error output.

    Its input is a pipe that closes with this process: see `compiler.end_with_owner`.
    """
    ours, theirs = None, None
    try:
        theirs, ours = os.pipe()
        with subprocess.Popen(
            command,
            env=environment,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                _, said = process.communicate(timeout=_PATIENCE)
            except BaseException:  # Ctrl-C among them
                os.killpg(process.pid, signal.SIGTERM)
                raise
        return process.returncode, said
    finally:
        for end in (ours, theirs):
            if end is not None:
                os.close(end)


def _last_line(text: str) -> str:
    """Return the first error of a compiler's output, or the end of a traceback."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if " error: " in line]
    return (errors or lines[-1:] or ["no output"])[0]


def _in_short(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{words[:200]}{'...' if len(words) > 200 else ''}" or type(error).__name__
