"""Small tensors of any shape and type on their way to a device, as one copy."""

from collections.abc import Sequence

import torch
from torch import Tensor


def send_packed(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Return tensors of the host on a device, in one copy and as they were; to CUDA from pinned memory."""
    # Those of wide numbers come first: so every part begins where its type may begin.
    order = sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size())
    rows = [tensors[i].detach().contiguous().reshape(-1).view(torch.uint8) for i in order]
    if not rows:
        return []
    packed = torch.cat(rows)
    if device.type == "cuda":
        packed = packed.pin_memory()
    there = packed.to(device, non_blocking=device.type == "cuda")
    parts = torch.split(there, [len(row) for row in rows])
    found = {i: part.view(tensors[i].dtype).view(tensors[i].shape) for i, part in zip(order, parts, strict=True)}
    return [found[i] for i in range(len(tensors))]
