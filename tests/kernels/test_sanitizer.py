"""The bounded form of `python -m tests.tools.sanitize`: a few shapes, and proof that it would notice."""

import subprocess
import sys
from pathlib import Path

import pytest

from smallgroup.kernels import library
from tests.tools.sanitize import environment_of_sanitizer

QUICK = ["-O0", "-fsanitize=address"]
"""The compiler takes a third of the time, and every access is checked as in the longer form."""
PLANTED = """
#include "{kernels}"

static void store_beyond(const at::Tensor& x, int64_t count) {{
  float* last = x.data_ptr<float>() + x.numel() - 3;
  smallgroup::store(smallgroup::Vec<float>(1), last, count);
}}
TORCH_LIBRARY_FRAGMENT(smallgroup, m) {{ m.def("store_beyond(Tensor x, int count) -> ()"); }}
TORCH_LIBRARY_IMPL(smallgroup, CPU, m) {{ m.impl("store_beyond", &store_beyond); }}
"""
"""The kernels, and one that stores `count` numbers where there is room for three: at once, or a part by itself."""
PROBE = """
import sys, torch
from pathlib import Path
from tests.tools.sanitize import run

run(Path(sys.argv[1]), shapes=6, seed=0)
torch.ops.smallgroup.store_beyond(torch.zeros(35), 3)
print("within", flush=True)
torch.ops.smallgroup.store_beyond(torch.zeros(35), int(sys.argv[2]))
print("beyond", flush=True)
"""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    try:
        environment = environment_of_sanitizer()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"there is no address sanitizer here: {error}")
    folder = tmp_path_factory.mktemp("sanitized")
    source = folder / "planted.cpp"
    source.write_text(PLANTED.format(kernels=library.SOURCES / "library.cpp"))
    return library.compile_into(folder, QUICK, environment, source), environment


@pytest.mark.parametrize("count", [4, 64])
def test_kernels_stay_in_their_memory_and_one_that_does_not_is_found(
    sanitized: tuple[Path, dict[str, str]], count: int
) -> None:
    """A part of a vector, which has a mask elsewhere, and a whole one."""
    built, environment = sanitized
    command = [sys.executable, "-c", PROBE, str(built), str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said, last = done.stdout.splitlines(), done.stdout.splitlines()[-1:]
    assert last == ["within"], done.stderr
    assert "6 shapes through 16 kernels: no access outside of their memory" in said
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
    assert "store_beyond" in done.stderr
