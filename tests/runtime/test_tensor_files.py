"""What is written is what safetensors writes, and a lack of memory is an error like others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from smallgroup.runtime.tensor_files import tensor_bytes, tensors_of

TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.int32, torch.float32,
    torch.float64, torch.int64,
]  # fmt: skip
WITHOUT_MEMORY = """
import resource, sys
from pathlib import Path
import torch
from smallgroup.runtime.checkpoints import Checkpoints
from smallgroup.runtime.memory import is_out_of_memory

SIZE = 200_000_000
checkpoints, what = Checkpoints(Path(sys.argv[1])), sys.argv[2]
tensor = torch.zeros(SIZE // 4)
if what == "load":
    checkpoints.save(1, {"tensor": tensor}, {})
    del tensor
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(float(sys.argv[3]) * SIZE),) * 2)
try:
    checkpoints.save(1, {"tensor": tensor}, {}) if what == "save" else checkpoints.newest()
except (MemoryError, RuntimeError) as error:
    print("memory ran out" if is_out_of_memory(error) else error)
"""


def test_the_bytes_are_those_of_safetensors() -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {f"{k}.ä": torch.randint(0, 2, (3, k + 1), generator=generator).to(kind) for k, kind in enumerate(TYPES)}
    tensors |= {f"second {name}": tensor[:2].clone() for name, tensor in tensors.items()}
    tensors |= {"number": torch.tensor(0.5), "none": torch.zeros(0, 4), "": torch.ones(1)}
    assert tensor_bytes(tensors) == save(tensors)
    assert tensor_bytes({}) == save({})


def test_every_layout_is_stored_alike() -> None:
    images = torch.arange(2 * 3 * 4 * 4.0).reshape(2, 3, 4, 4)
    last = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    assert tensor_bytes({"a": last, "b": images.mT}) == save({"a": images, "b": images.mT.contiguous()})


def test_what_is_written_is_read_again() -> None:
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": torch.tensor(True),
        "c": torch.zeros(0, 4),
        "d": torch.ones(3),
    }
    found = tensors_of(tensor_bytes(tensors))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name], tensor)
    found["a"].add_(1)  # a copy of its own
    assert tensors_of(save({"x": torch.ones(2, dtype=torch.bfloat16)}))["x"].tolist() == [1.0, 1.0]


WRONG = "its header must name a type, a shape and a place of every tensor"
GAP = "its tensors must follow one another, each as long as its shape says"
SOUND = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ([], WRONG),
        (5, WRONG),
        ({"a": 5}, WRONG),
        ({"a": {}}, WRONG),
        ({"a": {**SOUND, "dtype": "F99"}}, WRONG),
        ({"a": {**SOUND, "dtype": ["F32"]}}, WRONG),
        ({"a": {**SOUND, "shape": 2}}, WRONG),
        ({"a": {**SOUND, "shape": [-2]}}, WRONG),
        ({"a": {**SOUND, "shape": [2.0]}}, WRONG),
        ({"a": {**SOUND, "shape": [True]}}, WRONG),
        ({"a": {**SOUND, "shape": [10**30, 0]}}, WRONG),
        ({"a": {**SOUND, "data_offsets": [0]}}, WRONG),
        ({"a": {**SOUND, "data_offsets": ["0", 8]}}, WRONG),
        ({"a": {**SOUND, "data_offsets": [8, 0]}}, GAP),
        ({"a": {**SOUND, "data_offsets": [4, 12]}}, GAP),
        ({"a": {**SOUND, "shape": [3]}}, GAP),
        ({"a": SOUND, "b": SOUND}, GAP),
        ({"a": {**SOUND, "shape": [2**40], "data_offsets": [0, 2**42]}}, GAP),
        (
            {"a": {**SOUND, "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}},
            "its tensors must fill the file",
        ),
        ({"a": {**SOUND, "shape": [1], "data_offsets": [0, 4]}}, "its tensors must fill the file"),
        ({}, "its tensors must fill the file"),
    ],
)
def test_a_header_that_is_wrong_is_one_sentence(header: object, sentence: str) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        tensors_of(len(text).to_bytes(8, "little") + text + bytes(8))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
@pytest.mark.parametrize(("what", "memory"), [("save", 0.5), ("load", 0.5), ("load", 1.5)])
def test_a_checkpoint_without_memory_is_an_error(what: str, memory: float, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_MEMORY, str(tmp_path), what, str(memory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "memory ran out\n"), done.stderr[-2000:]
    assert [path.name for path in tmp_path.iterdir()] == ([] if what == "save" else ["000000000001"])
