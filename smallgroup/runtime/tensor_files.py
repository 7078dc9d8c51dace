"""Files of tensors in the format safetensors, read with distrust.

The functions of the package safetensors are not used: where memory runs out, they end the process by SIGABRT, or panic
and hang. Here that is an error like others.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smallgroup.runtime.files import open_regular

LONGEST_HEADER = 100_000_000
"""Bytes; as much as safetensors itself reads."""


_TYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The types that are written, in the order in which safetensors writes them: the widest first."""
_KINDS = {name: kind for kind, name in _TYPES.items()}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the bytes of a file of tensors, the same as `safetensors.torch.save` gives.

    Tensors of every layout are stored alike; who loads them copies into tensors of the layout wanted.
    """
    order = list(_TYPES)
    names = sorted(tensors, key=lambda name: (order.index(tensors[name].dtype), name))
    header, parts, end = {}, [], 0
    for name in names:
        tensor = tensors[name].detach().cpu().contiguous()
        part = tensor.reshape(-1).view(torch.uint8).numpy().data
        begin, end = end, end + part.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        parts.append(part)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def tensors_of(content: bytes) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a file, as copies; what is not such a file is a ValueError."""
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        entries = json.loads(content[8:start])
        entries.pop("__metadata__", None)
        found = [(*_entry(entry), name) for name, entry in entries.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("its header must name a type, a shape and a place of every tensor") from None
    tensors, end, data = {}, 0, memoryview(content)[start:]
    for (begin, after), kind, shape, name in sorted(found, key=lambda one: one[0]):
        if begin != end or after > len(data) or after - begin != math.prod(shape) * kind.itemsize:
            raise ValueError("its tensors must follow one another, each as long as its shape says")
        # Bytes first: a copy begins where a number of any type may, which a part of the file need not.
        part = torch.empty(after - begin, dtype=torch.uint8)
        part.numpy()[:] = data[begin:after]
        tensors[name] = part.view(kind).reshape(shape)
        end = after
    if end != len(data):
        raise ValueError("its tensors must fill the file")
    return tensors


def _entry(entry: dict[str, Any]) -> tuple[tuple[int, int], torch.dtype, tuple[int, ...]]:
    """Return the place, type and shape of a tensor from its header; invalid headers raise errors of many kinds."""
    begin, end = entry["data_offsets"]
    kind, shape = _KINDS[entry["dtype"]], tuple(entry["shape"])
    # Within int64, so that no product below becomes an integer of any length.
    if not all(type(number) is int and 0 <= number < 2**63 for number in (begin, end, *shape)):
        raise ValueError("a size or offset in its header is not a whole number")
    return (begin, end), kind, shape


def read_tensors(path: Path) -> bytes:
    """Read a file of tensors if it is as long as its header says, which is checked before memory is allocated."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(LONGEST_HEADER, size - 8):
            raise ValueError(f"{path} must begin with a header of its tensors, but it does not")
        said = 8 + length + _data(file.read(length), path)
        if said != size:
            raise ValueError(f"{path} must have the {said:,} bytes that its header says, but it has {size:,}")
        file.seek(0)
        return file.read(size)


def _data(header: bytes, path: Path) -> int:
    """Return the bytes of all tensors, if they follow one another."""
    try:
        entries = json.loads(header)
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        if all(isinstance(end, int) and 0 <= end < 2**63 for end in ends):
            return max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        pass
    raise ValueError(f"{path} must begin with a header of its tensors, but it does not")
