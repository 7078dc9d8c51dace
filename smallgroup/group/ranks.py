"""A group whose learners are spread over the processes of `torch.distributed`: tables travel, networks do not."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed

from smallgroup.group.errors import NonFiniteError, PeerError
from smallgroup.group.exchange import Tables

TABLES, VOTE = 1, 2
"""The two kinds of messages between ranks: tables of a step, and the vote on whether to commit it."""
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8)
"""Of tables; uint8 for what else processes may have to tell each other now and then."""
MOST_DIMENSIONS = 8
FORM = 3 + 2 * MOST_DIMENSIONS
"""Integers that describe the tables of one learner."""
LONGEST = 300
"""Characters of an error that the other processes are told."""


class RankExchange:
    """An exchange between ranks: rank k modulo their number computes learner k; a rank may have several, or none.

    What a rank receives per step is the tables of the learners of other ranks, and a few hundred bytes that say what
    they are. Tables are added up in learner order on every rank, so the result is that of one process, bit for bit, if
    the processes have the same kind of CPU and number of threads. Every rank makes all learners, but only its own move.

    Call `torch.distributed.init_process_group` before: "gloo" on CPUs, "nccl" on GPUs. Its `timeout` is how long the
    others wait for a rank that hangs; if one dies, the step of the others ends at once with an error of torch.

    Args:
        size: the number of learners of the whole group.
        group: the process group; by default all processes.
    """

    def __init__(self, size: int, *, group: distributed.ProcessGroup | None = None) -> None:
        if not distributed.is_available() or not distributed.is_initialized():
            raise RuntimeError("learners on ranks need torch.distributed.init_process_group, but it was not called")
        self.size = size
        self.rank, self.ranks = distributed.get_rank(group), distributed.get_world_size(group)
        self.mine = range(self.rank, size, self.ranks)
        self.received = 0
        """Bytes that other ranks have sent to this one."""
        self.group = group
        on_gpu = distributed.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self._meetings = 0
        self._rooms: dict[int, int] = {}
        """Words for tables in the messages of each meeting of a step; the same on all ranks."""
        self._told = False
        """Whether all ranks know already that this step has failed."""
        self._unfinished = False
        """Whether a meeting has begun: one that is left in its middle cannot be made up for."""
        self._checked = False

    def tables(self, own: Mapping[int, Tables | None]) -> Sequence[Tables | None]:
        """Return the tables of all learners in their order; raise what another rank has failed with."""
        heads, brought = self._meet(TABLES, [own[k] for k in self.mine])
        if any(head[0] for head in heads):
            failure = self._first_failure(None)
            self._told = True
            raise failure
        # Over gloo tables travel between CPUs, wherever learners are.
        where = next((table.device for tables in own.values() for table in tables or ()), self._device)
        described = [[_Form.read(head[at : at + FORM]) for at in range(3, len(head), FORM)] for head in heads]
        places = [_places(part, forms) for part, forms in zip(brought, described, strict=True)]
        found: list[Tables | None] = [None] * self.size
        for k in range(self.size):
            rank, place = k % self.ranks, k // self.ranks
            form, tables = described[rank][place], own[k] if rank == self.rank else None
            if form.tables:
                flat = places[rank][place] if places[rank] else self._broadcast(rank, form, tables)
                found[k] = form.views(flat.to(where)) if tables is None else tables
        self._make_room(described)
        self._unfinished = False
        return found

    def agree(self, failure: BaseException | None) -> None:
        """End a step on all ranks alike; raise what another rank has failed with before this one."""
        if self._told or (self._unfinished and failure is not None):
            self._told = False
            return
        heads, _ = self._meet(VOTE, failed=failure is not None)
        if any(head[0] for head in heads):
            first = self._first_failure(failure)
            self._told = failure is None
            if first is not failure:
                raise first from failure
        self._meetings, self._unfinished = 0, False

    @contextmanager
    def jointly(self) -> Iterator[None]:
        """Let all ranks compute something together by other means: one that fails inside cannot tell the others."""
        self._unfinished = True
        yield
        self._unfinished = False

    def _meet(
        self,
        kind: int,
        own: Sequence[Tables | None] = (),
        *,
        failed: bool = False,
    ) -> tuple[list[list[int]], list[Tensor]]:
        """Return what every rank says at a meeting: whether it has failed, where it is, and what it brings.

        Tables come with it where they have the size of those of the step before.
        """
        if self._unfinished:
            raise RuntimeError(
                "an exchange between ranks was cut short because one died or was interrupted, so it is unknown what "
                "the others have kept; end the job and resume it"
            )
        forms = [_Form.of(tables) for tables in own]
        head = [int(failed), kind, self._meetings + 1, *(number for form in forms for number in form.numbers())]
        end = 3 + FORM * -(-self.size // self.ranks)
        numbers = torch.zeros(end + self._rooms.get(self._meetings + 1, 0), dtype=torch.int64)
        numbers[: len(head)] = torch.tensor(head)
        sent = numbers.to(self._device)
        for tables, form, flat in zip(own, forms, _places(sent[end:], forms), strict=False):
            form.fill(flat, tables or ())
        self._unfinished = True
        self._check_sizes()
        self._meetings += 1
        received = self._gathered(sent)
        heads = [part[:end].tolist() for part in received]
        going_on = {(kind, number) for failed, kind, number, *_ in heads if not failed}
        if len(going_on) > 1 and not any(head[0] for head in heads):
            self._unfinished = False
            raise RuntimeError(f"all ranks must take the same steps, but they are at different ones: {going_on}")
        return heads, [part[end:] for part in received]

    def _make_room(self, described: Sequence[Sequence["_Form"]]) -> None:
        """Let tables of this size come with the meeting in the next step: one message in place of one per learner.

        All messages of a meeting have one size, so that this is where no rank has fewer learners than another.
        """
        own = [form for forms in described for form in forms]
        if self.size % self.ranks == 0 and all(form.dtype != torch.uint8 for form in own):
            self._rooms[self._meetings] = max(sum(form.words for form in forms) for forms in described)

    def _check_sizes(self) -> None:
        """Refuse groups of different sizes at the first meeting."""
        sizes = [self.size] if self._checked else [size for (size,) in self._gathered_numbers([self.size])]
        if len(set(sizes)) > 1:
            raise ValueError(f"all ranks must have the same number of learners, but they have {sizes}")
        self._checked = True

    def _gathered(self, sent: Tensor) -> list[Tensor]:
        received = [torch.empty_like(sent) for _ in range(self.ranks)]
        distributed.all_gather(received, sent, group=self.group)
        self.received += (self.ranks - 1) * sent.nbytes
        return received

    def _gathered_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        return [part.tolist() for part in self._gathered(torch.tensor(numbers, device=self._device))]

    def _broadcast(self, rank: int, form: "_Form", tables: Tables | None) -> Tensor:
        """Return the tables of one learner, from its rank to all others: one message in the order of memory."""
        flat = torch.empty(form.tables * form.numel, dtype=form.dtype, device=self._device)
        if tables is not None:
            form.fill(flat, tables)
        distributed.broadcast(flat, group=self.group, group_src=rank)
        self.received += 0 if rank == self.rank else flat.nbytes
        return flat

    def _first_failure(self, own: BaseException | None) -> BaseException:
        """Return what to raise on this rank if any has failed: the same on all, that which one process would raise."""
        failures = [_read_failure(rank, part) for rank, part in enumerate(self._gathered_numbers(_told(own)))]
        self._meetings, self._unfinished = 0, False
        known = [failure for failure in failures if failure is not None]
        numbers = [failure for failure in known if isinstance(failure, NonFiniteError)]
        if others := [failure for failure in known if not isinstance(failure, FloatingPointError)]:
            # Whoever has met something else than numbers that are not finite raises that.
            return own if own is not None and not isinstance(own, FloatingPointError) else others[0]
        if len(numbers) < len(known):  # outside of the stages of a group
            return own if own is not None else known[0]
        first = min(numbers, key=lambda error: (error.stage, error.learner))
        is_own = isinstance(own, NonFiniteError) and (own.stage, own.learner) == (first.stage, first.learner)
        return own if is_own and own is not None else first


class _Form(NamedTuple):
    """The form of a learner's tables, sent before them; 0 tables mean none."""

    tables: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(tables: Tables | None) -> "_Form":
        """Return the form of some tables, which must be alike."""
        if tables is None:
            return _Form(0, torch.float32, (), ())
        first = tables[0]
        for table in tables:
            if table.shape != first.shape or table.dtype != first.dtype:
                raise ValueError(
                    "the tables that a learner hands over must have one shape and precision, but got "
                    f"{tuple(first.shape)} {first.dtype} and {tuple(table.shape)} {table.dtype}"
                )
        if first.dim() > MOST_DIMENSIONS or first.dtype not in DTYPES:
            raise ValueError(
                f"exchanged tables must have at most {MOST_DIMENSIONS} dimensions and 16, 32 or 64 bits, "
                f"but got {tuple(first.shape)} {first.dtype}"
            )
        return _Form(len(tables), first.dtype, tuple(first.shape), torch.empty_like(first, device="meta").stride())

    @staticmethod
    def read(numbers: Sequence[int]) -> "_Form":
        """Read the form that another rank has sent."""
        tables, dtype, dims, *sizes = numbers
        shape, strides = sizes[:dims], sizes[MOST_DIMENSIONS : MOST_DIMENSIONS + dims]
        return _Form(tables, DTYPES[dtype], tuple(shape), tuple(strides))

    def numbers(self) -> list[int]:
        """Return the form as a list of FORM integers."""
        none = [0] * (MOST_DIMENSIONS - len(self.shape))
        return [self.tables, DTYPES.index(self.dtype), len(self.shape), *self.shape, *none, *self.strides, *none]

    @property
    def numel(self) -> int:
        """The number of entries of one table."""
        return torch.Size(self.shape).numel()

    @property
    def words(self) -> int:
        """Return the number of 8-byte words that all tables take."""
        return -(-self.tables * self.numel * self.dtype.itemsize // 8)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the tables that lie in a row in memory, laid out as those that were sent: sums have one order."""
        parts = [flat[number * self.numel : (number + 1) * self.numel] for number in range(self.tables)]
        return [part.as_strided(self.shape, self.strides) for part in parts]

    def fill(self, flat: Tensor, tables: Tables) -> None:
        """Lay tables in a row in memory."""
        for view, table in zip(self.views(flat), tables, strict=True):
            view.copy_(table.detach())


def _places(brought: Tensor, forms: Sequence[_Form]) -> list[Tensor]:
    """Return where the tables of each learner of a rank lie in what it brings to a meeting; none: there is no room."""
    words = [form.words for form in forms]
    if sum(words) > len(brought):
        return []
    parts = torch.split(brought[: sum(words)], words)
    return [part.view(form.dtype)[: form.tables * form.numel] for part, form in zip(parts, forms, strict=True)]


def _told(failure: BaseException | None) -> list[int]:
    """Return a failure as integers: 0, or 1 with where a number is not finite, or 2, or 3 for other numbers; text."""
    if failure is None:
        text, head = "", [0, 0, 0, 0]
    elif isinstance(failure, NonFiniteError):
        text, head = failure.quantity, [1, failure.learner, failure.stage, failure.step]
    elif isinstance(failure, FloatingPointError):
        text, head = str(failure), [3, 0, 0, 0]
    else:
        text, head = f"{type(failure).__name__}: {failure}", [2, 0, 0, 0]
    letters = [ord(letter) for letter in text[:LONGEST]]
    return [*head, *letters, *[0] * (LONGEST - len(letters))]


def _read_failure(rank: int, numbers: Sequence[int]) -> FloatingPointError | PeerError | None:
    kind, learner, stage, step, *letters = numbers
    text = "".join(chr(letter) for letter in letters if letter)
    if kind == 1:
        return NonFiniteError(learner, stage, text, step)
    if kind == 3:
        return FloatingPointError(text)
    return PeerError(rank, text) if kind == 2 else None
