"""The network that is trained from scratch once a search in the DARTS space is over."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from smallgroup.kernels import AnyTerm, Backend, Board, Place, Term, backend_for
from smallgroup.runtime import stream
from smallgroup.runtime.checks import check_probability
from smallgroup.spaces.darts.auxiliary import AuxiliaryHead, build_auxiliary, check_map
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.darts.entrances import enter
from smallgroup.spaces.darts.genotype import INPUTS, CellGenotype, DartsGenotype
from smallgroup.spaces.darts.operations import build
from smallgroup.spaces.darts.skeleton import build_stem, reduction_cells
from smallgroup.spaces.drop_path import Key, draw_paths, through
from smallgroup.spaces.layers import FULL, FactorizedReduce, NoiseLayer, by_batch, norms_of, relu_conv_norm
from smallgroup.spaces.layout import laid_out
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.outputs import Outputs
from smallgroup.spaces.sharing import Operation, outputs


class DartsNetwork(DerivedNetwork):
    """Stem, a stack of cells that halves the size and doubles the channels twice, average over the image, linear layer.

    Any image size works that the stem leaves at least a pixel of. In training, an auxiliary head looks at the output of
    the second reduction cell, and paths are dropped with probability `drop_path`; a schedule sets that attribute anew.
    In eval mode neither happens.
    """

    def __init__(self, genotype: DartsGenotype, design: DartsDesign) -> None:
        super().__init__()
        if design.auxiliary != "none":
            check_map(design.smallest_map, design.smallest_map)
        reductions, channels = reduction_cells(design.cells), design.channels
        self.genotype = genotype
        self.drop_path = design.drop_path
        self.auxiliary_cell = max(reductions)
        """The index of the cell whose output the auxiliary head is given."""
        self.stem = build_stem(design.stem_kind, design.images.channels, channels, FULL)
        self.cells = nn.ModuleList()
        inputs, halved = self.stem.channels, self.stem.reduction_before
        widths: list[int] = []
        edges: list[int] = []
        copies: list[bool] = []  # which are never dropped
        for index in range(design.cells):
            reduction = index in reductions
            channels *= 2 if reduction else 1
            cell = _Cell(
                genotype.reduce if reduction else genotype.normal, inputs, channels, reduction=reduction, halved=halved
            )
            self.cells.append(cell)
            widths.append(cell.channels)
            edges.append(len(cell.edges))
            copies += [isinstance(operation, nn.Identity) for operation in cell.operations]
            inputs, halved = (inputs[1], cell.channels), reduction
        self._edges, self._copies = edges, copies
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inputs[1], design.images.classes)
        # Last, so that weights drawn in order are the same with and without it.
        self.auxiliary: AuxiliaryHead | None = build_auxiliary(
            design.auxiliary, widths[self.auxiliary_cell], design.images.classes
        )

    @property
    def drop_path(self) -> float:
        """With which probability an operation is left out for an image; skips that are mere copies never are."""
        return self._drop_path

    @drop_path.setter
    def drop_path(self, probability: float) -> None:
        check_probability("drop_path", probability)
        self._drop_path = float(probability)

    def forward(self, images: Tensor, key: Key | None = None) -> Tensor | Outputs:
        """Compute logits [n, classes] of images; in training with a head, also those of the head.

        The key, such as (seed, epoch, step), says what is dropped. Only a pass in training with drop path needs one.
        """
        if self.training and key is None and any(isinstance(part, NoiseLayer) for part in self.modules()):
            raise ValueError("a pass in training through noise must be given a key, such as (seed, epoch, step)")
        kept = self._kept(images, key)
        before, last = self.stem(laid_out(images))
        entered: dict[tuple[int, int], Term] = {}
        fast = [cell.computed_fast(last) for cell in self.cells]  # type: ignore[operator]
        if before is last:
            self._enter(last, [(0, 0), (0, 1), (1, 0)], fast, entered)
        else:
            self._enter(before, [(0, 0)], fast, entered)
            self._enter(last, [(0, 1), (1, 0)], fast, entered)
        auxiliary: Tensor | None = None
        for index, cell in enumerate(self.cells):
            states = [entered.pop((index, number)) for number in range(INPUTS)] if fast[index] else None
            numbers = (*key, index) if self.training and key is not None else None
            before, last = last, cell(before, last, None if kept is None else kept[index], states, numbers)
            self._enter(last, [(index + 1, 1), (index + 2, 0)], fast, entered)
            if self.training and self.auxiliary is not None and index == self.auxiliary_cell:
                auxiliary = self.auxiliary(last)
        logits: Tensor = self.classifier(self.pool(last).flatten(1))
        return logits if auxiliary is None else Outputs(logits, auxiliary)

    def _enter(
        self,
        x: Tensor,
        places: Sequence[tuple[int, int]],
        fast: Sequence[bool],
        entered: dict[tuple[int, int], Term],
    ) -> None:
        """Compute the first layers of the cells that an output enters; a place is a cell and one of its inputs."""
        places = [(cell, number) for cell, number in places if cell < len(fast) and fast[cell]]
        backend = backend_for(x)
        if places and backend is not None:
            layers = [self.cells[cell].entrance(number) for cell, number in places]  # type: ignore[operator]
            entered.update(zip(places, enter(backend, x, layers), strict=True))

    def _kept(self, images: Tensor, key: Key | None) -> Sequence[Tensor] | None:
        """Draw the factors of the edges of each cell, [n, edges]; None if nothing is dropped."""
        if not self.training or self.drop_path == 0:
            return None
        if key is None:
            raise ValueError(
                "a pass in training with drop path must be given a key, such as (seed, epoch, step), "
                f"but got none with drop_path={self.drop_path}"
            )
        kept = draw_paths(len(images), sum(self._edges), self.drop_path, key)
        kept = kept.masked_fill(torch.tensor(self._copies), 1)
        # First the dtype: some devices have no float64.
        return torch.split(kept.to(images.dtype).to(images.device), self._edges, dim=1)


class Unread(nn.Module):
    """A layer of zeros in place of the first layer of an input that only noise operations take."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, inputs: Tensor) -> Tensor:
        """Return zeros [n, channels, h, w] for x [n, c, h, w], or half the size."""
        return torch.zeros_like(inputs[:, :1, :: self.stride, :: self.stride]).expand(-1, self.channels, -1, -1)


class _Cell(nn.Module):
    """One cell. `halved`: the first input is twice the size of the second, as the cell in between was a reduction."""

    def __init__(
        self, genotype: CellGenotype, inputs: tuple[int, int], channels: int, *, reduction: bool, halved: bool
    ) -> None:
        super().__init__()
        edges = [(node, edge) for node, into in enumerate(genotype.nodes, start=INPUTS) for edge in into]
        read_by = [{edge.operation for _, edge in edges if edge.source == number} for number in range(INPUTS)]
        first = FactorizedReduce if halved else relu_conv_norm
        unread = [operations == {"noise"} for operations in read_by]
        self.preprocess0: nn.Module = (
            Unread(channels, 2 if halved else 1) if unread[0] else first(inputs[0], channels, FULL)
        )
        self.preprocess1: nn.Module = Unread(channels, 1) if unread[1] else relu_conv_norm(inputs[1], channels, FULL)
        self.channels = len(genotype.concat) * channels
        self.concat = genotype.concat
        self.edges = tuple((node, edge.source) for node, edge in edges)
        # Only what comes from outside a reduction cell is still of the old size.
        self.operations = nn.ModuleList(
            build(edge.operation, channels, 2 if reduction and edge.source < INPUTS else 1, FULL) for _, edge in edges
        )

    def computed_fast(self, x: Tensor) -> bool:
        """Return whether there is a fast path for images like these."""
        return backend_for(x) is not None and by_batch(norms_of(self))

    def entrance(self, number: int) -> nn.Module:
        """Return the layer that one of the two inputs passes first."""
        return self.preprocess1 if number else self.preprocess0

    def forward(
        self,
        before: Tensor,
        last: Tensor,
        kept: Tensor | None = None,
        entered: Sequence[Term] | None = None,
        key: Key | None = None,
    ) -> Tensor:
        """Compute the cell: every node is the sum of its edges; the output is the nodes of `concat` side by side.

        `entered`: what its first layers make of the inputs, on a fast path. `key`: what the numbers of `noise` are a
        function of; without one, noise is its mean.
        """
        backend = backend_for(last)
        operations = self._bound(key)
        if entered is not None and backend is not None:
            return self._fast(backend, operations, entered, kept)
        states: dict[int, Tensor] = {0: self.preprocess0(before), 1: self.preprocess1(last)}
        for index, ((node, source), operation) in enumerate(zip(self.edges, operations, strict=True)):
            term: Tensor = operation(states[source])
            # A skip that halves the size is a convolution, and dropped like one.
            if kept is not None and not isinstance(operation, nn.Identity):
                term = through(term, kept[:, index])
            states[node] = states[node] + term if node in states else term
        return torch.cat([states[node] for node in self.concat], dim=1)

    def _bound(self, key: Key | None) -> Sequence[Operation]:
        """Return the operations as functions of their input alone."""
        if key is None or not any(isinstance(operation, NoiseLayer) for operation in self.operations):
            return list(self.operations)
        return [
            partial(operation, generator=stream(*key, "noise", edge))
            if isinstance(operation, NoiseLayer)
            else operation
            for edge, operation in enumerate(self.operations)
        ]

    def _fast(
        self, backend: Backend, operations: Sequence[Operation], entered: Sequence[Term], kept: Tensor | None
    ) -> Tensor:
        """Compute the cell on a fast path: all edges that leave a node at once, and a node as one sum."""
        states = dict(enumerate(entered))
        terms: dict[int, AnyTerm] = {}
        board = Board(len(self.concat))

        def leave(source: int) -> None:
            edges = [index for index, (_, from_) in enumerate(self.edges) if from_ == source]
            found = outputs(backend, states[source], [operations[index] for index in edges])
            terms.update(zip(edges, found, strict=True))

        weights = states[0].value.new_ones(len(self.edges)) if kept is None else kept
        leave(0)
        leave(1)
        for node in dict.fromkeys(node for node, _ in self.edges):
            into = [index for index, (to, _) in enumerate(self.edges) if to == node]  # which stand side by side
            own = weights[..., into[0] : into[-1] + 1]
            place = Place(board, self.concat.index(node)) if node in self.concat else None
            states[node] = Term(backend.mix([terms[index] for index in into], own, place))
            leave(node)
        return backend.joined([backend.normalized(states[node]) for node in self.concat], board)
