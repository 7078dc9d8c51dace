"""The kernels are compiled once, wholly or not at all, and their absence is a sentence."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from smallgroup import kernels
from smallgroup.kernels import library
from smallgroup.kernels.trust import make_own
from tests.kernels.layers import SEARCH, images, layer
from tests.kernels.test_paths import computed, largest_difference

PROBE = "from smallgroup.kernels import library; print(library.load() or 'loaded')"


def asked(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process with a cache of its own."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **environment}
    return subprocess.run([sys.executable, "-c", PROBE], env=env, capture_output=True, text=True, check=True)


def test_no_compiler_is_a_few_words_and_the_other_path(tmp_path: Path) -> None:
    done = asked(tmp_path, CXX="no-such-compiler")
    assert done.stdout == "there is no C++ compiler (no-such-compiler)\n"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "program"), [("sh", "sh"), ("env sh", "sh"), ("sh -m64", "sh"), ("nothing sh", "sh")]
)
def test_a_compiler_may_be_several_words(words: str, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", words)
    assert library.find_compiler() == program


def test_a_compiler_that_fails_is_a_few_words(tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: it is broken' >&2\nexit 1\n")
    compiler.chmod(0o755)
    done = asked(tmp_path, CXX=str(compiler))
    assert done.stdout.startswith("the compiler failed: ")
    assert done.stdout.count("\n") == 1
    assert not list((tmp_path / "smallgroup" / "kernels").glob("*.so"))


def test_a_cache_that_cannot_be_written_is_a_few_words(tmp_path: Path) -> None:
    (tmp_path / "smallgroup").write_text("in the way")
    assert "Traceback" not in asked(tmp_path).stderr


def test_the_switch(tmp_path: Path) -> None:
    assert asked(tmp_path, SMALLGROUP_NATIVE="0").stdout == "SMALLGROUP_NATIVE=0 is set\n"


def test_a_damaged_library_is_not_loaded(tmp_path: Path) -> None:
    place = tmp_path / "x.so"
    place.write_bytes(b"library")
    assert not library._whole(place)
    sidecar = library._sidecar(place)
    sidecar.write_text(json.dumps({"sha256": "0" * 64, "identity": "x"}))
    assert not library._whole(place)
    sidecar.write_text("[]")
    assert not library._whole(place)
    sidecar.write_text(json.dumps({"sha256": hashlib.sha256(b"library").hexdigest()}))
    assert not library._whole(place)
    sidecar.write_text(json.dumps({"sha256": hashlib.sha256(b"library").hexdigest(), "identity": "x"}))
    assert library._whole(place)


def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a library in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = library._place()
    make_own(place.parent)
    return place


def test_a_relative_cache_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    with pytest.raises(OSError, match="XDG_CACHE_HOME must be an absolute path, but it is 'cache'"):
        library._built()


def test_a_new_cache_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = cache(tmp_path, monkeypatch)
    assert [folder.stat().st_mode & 0o777 for folder in list(place.parents)[:3]] == [0o700] * 3


@pytest.mark.parametrize("above", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int, mode: int
) -> None:
    place = cache(tmp_path, monkeypatch)
    place.parents[above].chmod(mode)
    with pytest.raises(OSError, match=f"{place.parents[above]} must not be writable for others"):
        library._built()


@pytest.mark.parametrize("name", ["library", "sidecar", "folder", "link"])
def test_a_library_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    place = cache(tmp_path, monkeypatch)
    place.write_bytes(b"library")
    sidecar = library._sidecar(place)
    sidecar.write_text(json.dumps({"sha256": hashlib.sha256(b"library").hexdigest(), "identity": "x"}))
    assert library._built() == place
    target = {"library": place, "sidecar": sidecar, "folder": place.parent, "link": place}[name]
    if name == "link":
        place.rename(tmp_path / "elsewhere.so")
        place.symlink_to(tmp_path / "elsewhere.so")
    elif os.geteuid() == 0:
        os.chown(target, 12345, -1)
    else:
        target.chmod(0o777)
    with pytest.raises(OSError, match=f"{target} must (be a regular file|belong to this user|not be writable)"):
        library._built()


def test_a_compiler_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also with one that is killed."""
    if not Path("/proc/self/stat").exists() or shutil.which("c++") is None:
        pytest.skip("there is no compiler here, or no list of processes")
    compiler, started = tmp_path / "slow", tmp_path / "started"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *library.cpp*)\n'
        f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600;;\nesac\n"
        'exec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "CXX": str(compiler)}
    owner = subprocess.Popen([sys.executable, "-c", PROBE], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not started.exists():
        assert owner.poll() is None, owner.communicate()
        time.sleep(0.05)
    owner.kill()
    owner.communicate()  # until nobody holds its output any more
    number = int(started.read_text())
    deadline = time.monotonic() + 60
    while alive(number):
        assert time.monotonic() < deadline, f"the compiler {number} is still running"
        time.sleep(0.05)


def alive(number: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for its exit code does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_native_without_kernels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load", lambda: "there is no C++ compiler (c++)")
    with (
        pytest.raises(library.NoKernels, match=r"kernels=native needs kernels compiled .* no C"),
        kernels.using("native"),
    ):
        pass
    with kernels.using("auto") as path:
        assert path == "torch"
    assert "no C++ compiler" in kernels.in_words("torch")


def test_a_run_records_which_kernels_it_had() -> None:
    if "native" not in kernels.available():
        pytest.skip("there are no native kernels here")
    assert kernels.describe("native") == f"native {library.identity()}"
    assert len(library.identity()) == 8
    assert kernels.describe("torch") == "torch"


def test_a_path_must_be_one_of_them() -> None:
    with pytest.raises(ValueError, match="kernels must be one of"), kernels.using("fast"):
        pass


def test_threads_are_those_of_torch() -> None:
    """The kernels start no threads of their own: with torch on one thread the process has no more afterwards."""
    if "native" not in kernels.available() or not Path("/proc/self/task").exists():
        pytest.skip("there are no native kernels here, or no list of threads")
    code = """
import os, torch
torch.set_num_threads(1)
from smallgroup.kernels import library
from smallgroup.spaces.layers import SEARCH, relu_conv_norm
library.load()
x, module = torch.randn(8, 16, 16, 16), relu_conv_norm(16, 16, SEARCH)
before = len(os.listdir("/proc/self/task"))
module(x).sum().backward()
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_the_number_of_threads_changes_rounding_at_most() -> None:
    if "native" not in kernels.available():
        pytest.skip("there are no native kernels here")
    before = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(computed("native", layer("sep_conv_3x3", 16, 1, SEARCH), images((5, 16, 8, 8)))[0])
    finally:
        torch.set_num_threads(before)
    assert largest_difference(*found) < 1e-11
