"""Random numbers of a step drawn before it: on a device, no pass then waits to know which operations run."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from smallgroup.methods.relaxed import Relaxed
from smallgroup.phases.search.learners import Searcher
from smallgroup.runtime.packing import send_packed


class DrawsAhead:
    """The knowledge in main memory about the architectures, so that draws need not read from the device."""

    def __init__(self) -> None:
        self._known: dict[int, Mapping[str, Tensor]] = {}

    def forget(self) -> None:
        """Forget what was drawn ahead: the architectures may have changed between two steps."""
        self._known = {}

    def wanted(self, searchers: Sequence[Searcher]) -> dict[int, Mapping[str, Tensor]]:
        """Return the architectures on a device by which operations are drawn: they are read with the metrics."""
        return {
            k: searcher.learner.architecture
            for k, searcher in enumerate(searchers)
            if searcher.learner.device.type != "cpu" and searcher.relaxed.draws
        }

    def note(self, known: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Keep architectures as they are after a step."""
        self._known = dict(known)

    def send(self, searchers: Sequence[Searcher], step: int) -> None:
        """Draw for all phases of a step, and send what was drawn in one copy."""
        wanted = self.wanted(searchers)
        if not wanted:
            return
        known = self._known if self._known.keys() == wanted.keys() else read_packed(wanted)
        drawing: list[Relaxed] = [searchers[k].relaxed for k in wanted]
        drawn = [relaxed.draw_ahead(known[k], step) for k, relaxed in zip(wanted, drawing, strict=True)]
        there = send_packed([tensor for one in drawn for tensor in one.tensors], searchers[0].learner.device)
        for relaxed, one in zip(drawing, drawn, strict=True):
            count = len(one.tensors)
            relaxed.take_draws(one, there[:count])
            there = there[count:]


def read_packed(architectures: Mapping[int, Mapping[str, Tensor]]) -> dict[int, dict[str, Tensor]]:
    """Return architectures of one type in main memory, waited for once."""
    tensors = [tensor.detach() for one in architectures.values() for tensor in one.values()]
    whole = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu()
    parts = iter(torch.split(whole, [tensor.numel() for tensor in tensors]))
    return {
        k: {name: next(parts).view(tensor.shape) for name, tensor in one.items()} for k, one in architectures.items()
    }
