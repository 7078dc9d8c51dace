"""How a batch is divided: into parts that are computed one after the other, and over the processes of a training.

A batch is drawn for all processes. With ranks it has at least one part for each of them, and rank r computes every
part whose number is r modulo the number of ranks. So a batch that is divided into four parts has the same four parts on
one, two or four ranks. Their gradients are added up by torch's `DistributedDataParallel`.
"""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from smallgroup.group import RankExchange
from smallgroup.phases.training.norms import synchronize
from smallgroup.runtime.world import TornStepError


class Piece(NamedTuple):
    """A part of a batch, as a process computes it."""

    part: int
    """The number of the part in the batch, by which drop path is drawn."""
    low: int
    high: int
    """Where it lies among the images that this process has of the batch."""
    share: float
    """The share of the images of the whole batch; 0 if the part only keeps the other ranks company."""


class Slices:
    """All parts of a batch, in this process."""

    rank, ranks = 0, 1

    def __init__(self, accumulate: int) -> None:
        self.accumulate = accumulate

    def bounds(self, images: int) -> list[tuple[int, int]]:
        """Return where the parts of a batch begin and end; batch norm needs two images."""
        parts = max(1, min(max(self.accumulate, self.ranks), images // 2))
        sizes = [images // parts + (part < images % parts) for part in range(parts)]
        edges = [sum(sizes[:part]) for part in range(parts + 1)]
        return list(pairwise(edges))

    def pieces(self, images: int) -> list[Piece]:
        """Return the parts that are computed here, of a batch of so many images: the same number on every rank."""
        bounds, found, place = self.bounds(images), [], 0
        for number in self._numbers(len(bounds)):
            low, high = bounds[number]
            share = (high - low) / images if number % self.ranks == self.rank else 0.0
            found.append(Piece(number, place, place + high - low, share))
            place += high - low
        return found

    def rows(self, images: int) -> Tensor | None:  # noqa: ARG002
        """Return which images of a batch are read here; None for all of them."""
        return None

    def _numbers(self, parts: int) -> list[int]:
        own = list(range(self.rank, parts, self.ranks))
        return own + [0] * (-(-parts // self.ranks) - len(own))

    def passed(self, network: nn.Module, images: Tensor, key: Any) -> Any:  # noqa: ANN401 -- what the network returns
        """Return what the network says of images of a part."""
        return network(images, key)

    @contextmanager
    def part(self, piece: Piece, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        """Compute one part inside the context, and add its gradient."""
        yield

    @contextmanager
    def adding(self, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        """Add the gradient of a part to those before; after the last part, add those of the other ranks."""
        yield

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over the ranks of what each has of something; every rank must have come so far."""
        return values

    def share_out(self, count: int) -> range:
        """Return which of so many batches are looked at here, where images are classified."""
        return range(self.rank, count, self.ranks)

    def gather(self, weight: float, buffers: Sequence[Tensor], sums: dict[str, float]) -> None:
        """Bring together what the ranks have of a step beside the gradient."""

    def check_alike(self, tensors: Sequence[Tensor]) -> None:
        """Refuse to go on if the ranks have different weights."""


class RankSlices(Slices):
    """The parts of a batch over ranks.

    Running statistics of batch norms are averaged over the ranks after each step, by their shares of the batch, so that
    all ranks have the same network at all times.

    Args:
        accumulate: into how many parts a batch is divided at least.
        exchange: where ranks tell each other of failures; it must be made for one learner per rank.
        network: what is trained.
        synchronized: whether batch norms normalize by the statistics of the images on all ranks.
    """

    def __init__(self, accumulate: int, exchange: RankExchange, network: nn.Module, *, synchronized: bool) -> None:
        super().__init__(accumulate)
        self.rank, self.ranks, self._exchange = exchange.rank, exchange.ranks, exchange
        self._device = next(network.parameters()).device
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a new name for the option, which older versions lack
            # Buffers are averaged, see `gather`: torch's way would keep those of rank 0.
            self._network = DistributedDataParallel(network, broadcast_buffers=False, process_group=exchange.group)
        self._statistics = synchronize(network, exchange.group) if synchronized else None

    def rows(self, images: int) -> Tensor | None:
        """Return which images of a batch are read here, part by part."""
        bounds = self.bounds(images)
        return torch.cat([torch.arange(*bounds[number]) for number in self._numbers(len(bounds))])

    def passed(self, network: nn.Module, images: Tensor, key: Any) -> Any:  # noqa: ANN401, ARG002
        """Return what the network says; synchronized norms meet on the way."""
        with nullcontext() if self._statistics is None else self._jointly():
            return self._network(images, key)

    @contextmanager
    def part(self, piece: Piece, *, last: bool) -> Iterator[None]:
        """Compute one part inside the context; a part without images of its own leaves statistics unchanged."""
        # The number of passes goes on: it is the same on all ranks.
        buffers = [buffer for buffer in self._network.module.buffers() if buffer.is_floating_point()]
        before = [] if piece.share else [buffer.clone() for buffer in buffers]
        if self._statistics is not None:
            self._statistics.counts = bool(piece.share)
        with nullcontext() if last else self._network.no_sync():
            yield
        for buffer, saved in zip(buffers, before, strict=False):
            buffer.copy_(saved)

    @contextmanager
    def adding(self, *, last: bool) -> Iterator[None]:
        """Add gradients over the ranks inside the context; it begins only when all ranks have come this far."""
        if not last and self._statistics is None:
            yield
            return
        self._exchange.agree(None)
        with self._jointly(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Grad strides do not match")  # of 1x1 convolutions: nothing is copied
            yield

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over the ranks, once all have said that they have their part of it."""
        self._exchange.agree(None)
        return self._summed(values)

    def gather(self, weight: float, buffers: Sequence[Tensor], sums: dict[str, float]) -> None:
        """Average running statistics by weight, which is this rank's share of the batch, and add up the sums."""
        moving = [buffer for buffer in buffers if buffer.is_floating_point()]
        if moving:
            flat = self._summed(torch.cat([buffer.flatten() for buffer in moving]) * weight)
            for buffer, mean in zip(moving, torch.split(flat, [buffer.numel() for buffer in moving]), strict=True):
                buffer.copy_(mean.view_as(buffer))
        found = self._summed(torch.tensor(list(sums.values()), dtype=torch.float64, device=self._device))
        sums.update(zip(sums, found.tolist(), strict=True))

    def check_alike(self, tensors: Sequence[Tensor]) -> None:
        """Refuse to go on if the ranks have different weights."""
        own = hashlib.sha256()
        for tensor in tensors:
            own.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        mine = torch.frombuffer(bytearray(own.digest()), dtype=torch.uint8)
        for rank, tables in enumerate(self._exchange.tables({k: [mine] for k in self._exchange.mine})):
            if tables is not None and not torch.equal(tables[0].cpu(), mine):
                raise RuntimeError(
                    f"weights must be the same on all ranks at the end of an epoch, but rank {rank} has others than "
                    f"rank {self.rank}; end the job and resume it on machines that compute alike"
                )

    def _summed(self, values: Tensor) -> Tensor:
        there = values.to(self._device)
        with self._jointly():
            distributed.all_reduce(there, group=self._exchange.group)
        return there.to(values.device)

    @contextmanager
    def _jointly(self) -> Iterator[None]:
        """Compute something on all ranks together; a rank that fails here cannot tell the others."""
        try:
            with self._exchange.jointly():
                yield
        except Exception as error:
            raise TornStepError(
                "a rank has died, or failed while gradients were added up, so all end without writing a "
                f"checkpoint; --resume continues from the newest one ({type(error).__name__}: {str(error)[:200]})"
            ) from error
