"""A derived network of the DARTS space once more, as plain arithmetic on its state: no module is used."""

import random

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge

NAMES = (
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "sep_conv_7x7",
    "dil_conv_3x3",
    "dil_conv_5x5",
    "conv_7x1_1x7",
)
State = dict[str, Tensor]


def random_genotype(seed: int) -> DartsGenotype:
    """Every operation occurs; nodes have one to three edges, and not all nodes are part of the output."""
    draw = random.Random(seed)
    names = list(NAMES) * 2
    draw.shuffle(names)

    def cell() -> CellGenotype:
        nodes = []
        for node in range(2, 6):
            edges = {2: 2, 3: 3, 4: 2, 5: 2}[node]
            nodes.append(tuple(Edge(names.pop(), draw.randrange(node)) for _ in range(edges)))
        return CellGenotype(tuple(nodes), tuple(draw.sample(range(2, 6), draw.choice((3, 4)))))

    return DartsGenotype(cell(), cell())


def randomize(network: torch.nn.Module, seed: int = 0) -> None:
    """Scales, shifts and running statistics that are not the neutral ones."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in network.state_dict().items():
        if value.dim() == 1 and value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator).to(value)
            value.copy_(noise - 0.5 if name.endswith(("bias", "mean")) else noise + 0.5)


def logits_of(state: State, genotype: DartsGenotype, images: Tensor, *, cells: int, stem: str) -> list[Tensor]:
    """The outputs of all cells, and the logits at the end, in eval mode."""
    first = _norm(state, "stem.first.1", _conv(state, "stem.first.0", images, 2 if stem == "imagenet" else 1))
    second = first
    if stem == "imagenet":
        first = _norm(state, "stem.first.4", _conv(state, "stem.first.3", first.relu(), 2))
        second = _norm(state, "stem.second.2", _conv(state, "stem.second.1", first.relu(), 2))
    outputs = [first, second]
    for index in range(cells):
        reduction = index in (cells // 3, 2 * cells // 3)
        genes = genotype.reduce if reduction else genotype.normal
        outputs.append(_cell(state, f"cells.{index}", genes, outputs[-2], outputs[-1], reduction=reduction))
    mean = outputs[-1].mean((2, 3))
    return [*outputs[2:], mean @ state["classifier.weight"].T + state["classifier.bias"]]


def head_of(state: State, maps: Tensor, *, stride: int, second_norm: bool) -> Tensor:
    """The auxiliary head as papers write it, in eval mode."""
    x = functional.avg_pool2d(maps.relu(), 5, stride, 0, count_include_pad=False)
    x = _norm(state, "auxiliary.features.1", _conv(state, "auxiliary.features.0", x)).relu()
    x = functional.conv2d(x, state["auxiliary.features.3.weight"])
    x = _norm(state, "auxiliary.features.4", x) if second_norm else x
    return x.relu().flatten(1) @ state["auxiliary.classifier.weight"].T + state["auxiliary.classifier.bias"]


def _cell(state: State, name: str, genes: CellGenotype, before: Tensor, last: Tensor, *, reduction: bool) -> Tensor:
    if before.shape[-1] > last.shape[-1]:
        a = _halved(state, f"{name}.preprocess0", before)
    else:
        a = _norm(state, f"{name}.preprocess0.2", _conv(state, f"{name}.preprocess0.1", before.relu()))
    nodes = [a, _norm(state, f"{name}.preprocess1.2", _conv(state, f"{name}.preprocess1.1", last.relu()))]
    number = 0
    for edges in genes.nodes:
        total = torch.zeros(())
        for operation, source in edges:
            stride = 2 if reduction and source < 2 else 1
            total = total + _operation(state, f"{name}.operations.{number}", operation, nodes[source], stride)
            number += 1
        nodes.append(total)
    return torch.cat([nodes[node] for node in genes.concat], dim=1)


def _operation(state: State, name: str, operation: str, x: Tensor, stride: int) -> Tensor:
    if operation == "max_pool_3x3":
        return functional.max_pool2d(x, 3, stride, 1)
    if operation == "avg_pool_3x3":
        return functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
    if operation == "skip_connect":
        return x if stride == 1 else _halved(state, name, x)
    if operation == "conv_7x1_1x7":
        x = functional.conv2d(x.relu(), state[f"{name}.1.weight"], None, (1, stride), (0, 3))
        return _norm(state, f"{name}.3", functional.conv2d(x, state[f"{name}.2.weight"], None, (stride, 1), (3, 0)))
    dilation, times = (2, 1) if operation.startswith("dil") else (1, 2)
    for start in range(0, 4 * times, 4):
        weight = state[f"{name}.{start + 1}.weight"]
        assert weight.shape[-1] == int(operation[-1])
        padding, groups = dilation * (weight.shape[-1] // 2), weight.shape[0]
        x = functional.conv2d(x.relu(), weight, None, stride if start == 0 else 1, padding, dilation, groups)
        x = _norm(state, f"{name}.{start + 3}", _conv(state, f"{name}.{start + 2}", x))
    return x


def _halved(state: State, name: str, x: Tensor) -> Tensor:
    x = x.relu()
    even = functional.conv2d(x, state[f"{name}.even.weight"], None, 2)
    odd = functional.conv2d(x[:, :, 1:, 1:], state[f"{name}.odd.weight"], None, 2)
    return _norm(state, f"{name}.norm", torch.cat([even, odd], dim=1))


def _conv(state: State, name: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = state[f"{name}.weight"]
    return functional.conv2d(x, weight, None, stride, weight.shape[-1] // 2)


def _norm(state: State, name: str, x: Tensor) -> Tensor:
    mean, variance, scale, shift = (
        state[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (variance + 1e-5).sqrt() * scale + shift
