"""robust-s1 to robust-s4: parts of the DARTS space, against closed forms and through every command."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup.cli import main
from smallgroup.methods import METHODS, Darts, Relaxed
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces import definition_of
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.darts import CellGenotype, Edge
from smallgroup.spaces.darts.config import DartsConfig
from smallgroup.spaces.darts.design import DartsDesign
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.genotypes import dumps, loads
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.networks import build_network, design_of
from smallgroup.spaces.robust.genotype import GenotypeS2, GenotypeS4
from smallgroup.testing import DefinitionContract
from smallgroup.testing.groups import batches_for, group_of
from smallgroup.testing.small import small_space

NAMES = ("robust-s1", "robust-s2", "robust-s3", "robust-s4")
IMAGES = ImageSpec(classes=10, channels=3, size=8)


@pytest.mark.slow  # of the four contracts one is always run
class TestS1(DefinitionContract):
    name = "robust-s1"


class TestS4(DefinitionContract):
    name = "robust-s4"


@pytest.mark.slow
class TestS2(DefinitionContract):
    name = "robust-s2"


@pytest.mark.slow
class TestS3(DefinitionContract):
    name = "robust-s3"


def of_operation(name: str, channels: int, stride: int) -> int:
    """Weights of an operation in a search, where batch norms have none."""
    c = channels
    return {
        "sep_conv_3x3": 2 * (9 * c + c * c),
        "dil_conv_3x3": 9 * c + c * c,
        "dil_conv_5x5": 25 * c + c * c,
        "skip_connect": c * c if stride == 2 else 0,
    }.get(name, 0)


def of_supernet(kinds: dict[str, Kind], channels: int, cells: int, classes: int) -> int:
    """Closed form: stem 3 -> 3C with its norm, two 1x1 convolutions per cell, operations, and the classifier."""
    width = 3 * channels
    total, before, last, c = 27 * width + 2 * width, width, width, channels
    for number in range(cells):
        reduction = number in (cells // 3, 2 * cells // 3)
        c *= 2 if reduction else 1
        total += before * c + last * c
        kind = kinds["reduce" if reduction else "normal"]
        for edge, (source, _) in enumerate(kind.edges):
            total += sum(of_operation(n, c, 2 if reduction and source < 2 else 1) for n in kind.offered(edge))
        before, last = last, 4 * c
    return total + last * classes + classes


@pytest.mark.parametrize("name", NAMES)
def test_supernets_have_as_many_parameters_as_their_operations(name: str) -> None:
    definition = definition_of(name)
    for channels, cells in ((16, 8), (4, 3)):
        config = DartsConfig(name=name, channels=channels, cells=cells, stem="cifar")
        supernet = definition.space(config, ImageSpec()).supernet(MixedEdge, {})
        found = sum(parameter.numel() for parameter in supernet.parameters())
        assert found == of_supernet(dict(definition.kinds), channels, cells, 10)


def test_the_spaces_have_as_many_cells_as_their_paper_allows() -> None:
    """Pairs of edges into each node times the operations of each edge, without `none`; both cells."""

    def cells(kind: Kind) -> int:
        count = 1
        for node in (2, 3, 4, 5):
            edges = [e for e, (_, to) in enumerate(kind.edges) if to == node]
            options = [len([n for n in kind.offered(e) if n != "none"]) for e in edges]
            count *= sum(a * b for i, a in enumerate(options) for b in options[i + 1 :])
        return count

    per_cell = 1 * 3 * 6 * 10 * 2**8  # two of 2, 3, 4, 5 edges, two operations on each
    assert [cells(kind) for name in NAMES for kind in definition_of(name).kinds.values()] == [per_cell] * 8


def test_each_edge_of_s1_has_its_own_two_operations() -> None:
    normal, reduce = (definition_of("robust-s1").kinds[kind] for kind in ("normal", "reduce"))
    assert normal.offered(0) == ("skip_connect", "dil_conv_3x3")
    assert normal.offered(13) == ("dil_conv_3x3", "dil_conv_5x5")
    assert reduce.offered(6) == ("max_pool_3x3", "sep_conv_3x3")
    assert {len(kind.offered(edge)) for kind in (normal, reduce) for edge in range(14)} == {2}
    assert "avg_pool_3x3" not in normal.operations
    space = small_space("robust-s1")
    supernet = space.supernet(MixedEdge, {})
    edges = [edge for edge in supernet.modules() if isinstance(edge, MixedEdge)]
    assert set(edges[0].operations) == set(normal.offered(0))


@pytest.mark.parametrize("name", NAMES)
def test_what_an_edge_does_not_offer_is_never_derived(name: str) -> None:
    """By 2,000 random tables of scores; and what is derived is what the best offered operations say."""
    definition, generator = definition_of(name), stream("test", name)
    space = definition.at_any_size()
    for number in range(500):
        rule = Rule(("top2", "pairs", "threshold", "every-edge")[number % 4])
        scores = {kind: torch.rand(spec.shape, generator=generator) for kind, spec in space.kinds.items()}
        chosen = space.chosen(space.derive(scores, rule))  # what is not offered would be refused
        for kind, table in chosen.items():
            assert not bool((table.bool() & ~torch.tensor(space.kinds[kind].offers)).any())


def cells(operation: str) -> dict[str, CellGenotype]:
    nodes = tuple((Edge(operation, 0), Edge(operation, 1)) for _ in range(4))
    cell = CellGenotype(nodes, (2, 3, 4, 5))
    return {"normal": cell, "reduce": cell}


def test_genotypes_with_other_operations_are_refused_in_a_line() -> None:
    with pytest.raises(ValueError, match=r"node 2 of the normal cell has an unknown operation 'max_pool_3x3'"):
        GenotypeS2(**cells("max_pool_3x3"))
    with pytest.raises(ValueError, match=r"unknown operation 'noise'"):
        GenotypeS2(**cells("noise"))
    plain = json.loads(dumps(GenotypeS2(**cells("sep_conv_3x3"))))
    with pytest.raises(
        ValueError, match=r"the edge from 0 to 2 of the normal cell of robust-s1 must be skip_connect or "
    ):
        loads(json.dumps({**plain, "space": "robust-s1"}))


def test_networks_are_those_of_the_darts_space() -> None:
    """Same cells, same network, same counts."""
    own = GenotypeS2(**cells("sep_conv_3x3"))
    other = definition_of("darts").from_plain(definition_of("robust-s2").to_plain(own))
    design = design_of(own)
    ours, theirs = (build_network(one, design, device="meta") for one in (own, other))
    assert parameters(ours) == parameters(theirs)
    assert multiply_adds(ours, design.images.size) == multiply_adds(theirs, design.images.size)


def pair_of_networks() -> tuple[Any, Tensor]:
    network = build_network(
        GenotypeS4(
            **{
                kind: CellGenotype(((Edge("sep_conv_3x3", 1), Edge("noise", 0)), *cell.nodes[1:]), cell.concat)
                for kind, cell in cells("noise").items()
            }
        ),
        DartsDesign(images=IMAGES, channels=4, cells=3, stem="small"),
    )
    return network, torch.rand(3, *IMAGES.shape, generator=stream("images"))


def test_noise_in_a_network_is_a_function_of_the_key_and_none_in_eval_mode() -> None:
    network, images = pair_of_networks()
    network.train()
    first, again, other = (network(images, key) for key in ((1, 0, 0), (1, 0, 0), (1, 0, 1)))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    with pytest.raises(ValueError, match="through noise must be given a key"):
        network(images)
    network.eval()
    assert torch.equal(network(images, (1, 0, 0)), network(images))
    alone = torch.cat([network(images[i : i + 1]) for i in range(3)])
    assert torch.allclose(network(images), alone, atol=1e-6)


def test_noise_in_a_search_is_normal_replays_and_differs_between_phases_steps_and_learners() -> None:
    space = small_space("robust-s4")
    drawn: dict[Any, Tensor] = {}
    for learner, step, phase in product((0, 1), (0, 1), ("v", "w")):
        relaxed = Relaxed(space, Darts(), learner=learner)
        noises: list[Tensor] = []
        for module in relaxed.supernet.modules():
            if isinstance(module, MixedEdge):
                module.operations["noise"].register_forward_hook(lambda _, __, output, kept=noises: kept.append(output))
        relaxed.begin_step(step)
        weights, architecture = relaxed.initial_weights("w"), relaxed.initial_architecture()
        images = batches_for(space, torch.float32)[0][0]
        relaxed(weights, architecture, images, phase=phase)  # type: ignore[arg-type]
        count = len(noises)
        relaxed(weights, architecture, images, phase=phase)  # type: ignore[arg-type]
        assert all(torch.equal(a, b) for a, b in zip(noises[:count], noises[count:], strict=True))
        drawn[learner, step, phase] = torch.cat([noise.flatten() for noise in noises[:count]])
    assert len({tuple(noise[:5].tolist()) for noise in drawn.values()}) == 8
    numbers = drawn[0, 0, "v"]
    assert len(numbers) > 10_000
    assert abs(float(numbers.mean())) < 4 / len(numbers) ** 0.5
    assert abs(float(numbers.var()) - 1) < 4 * (2 / len(numbers)) ** 0.5


def test_a_cell_of_noise_alone_keeps_a_real_operation_from_the_last_cell() -> None:
    space = definition_of("robust-s4").at_any_size()
    scores = {kind: torch.tensor([[0.1, 0.9]] * 14) for kind in space.kinds}
    assert space.kinds["normal"].operations == ("sep_conv_3x3", "noise")
    scores["normal"][3, 0] = 0.2  # from the last cell to node 3: the best of those
    genotype: Any = space.derive(scores, Rule())
    assert [edge for edges in genotype.normal.nodes for edge in edges if edge.operation != "noise"] == [
        Edge("sep_conv_3x3", 1)
    ]
    assert Edge("sep_conv_3x3", 1) in genotype.normal.nodes[1]


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("name", ["robust-s1", pytest.param("robust-s4", marks=pytest.mark.slow)])
def test_every_method_searches_them(name: str, method: str) -> None:
    """Those of the DARTS space do; a group of two takes a step and derives a genotype that can be built."""
    definition = definition_of(name)
    space = definition.space(definition.config(name=name, channels=4), ImageSpec(4, 3, 8))
    options = {"part": 2} if method == "pc-darts" else {}
    group = group_of(space, [METHODS[method](**options) for _ in range(2)], torch.float32, hypergradient="first-order")
    report = group.step(*batches_for(space, torch.float32))
    for learner, told in zip(group.learners, report.learners, strict=True):
        assert told.norms["direct"] > 0
        assert isinstance(learner.apply, Relaxed)
        genotype = learner.apply.derive(learner.architecture)
        assert genotype.space == name


def test_a_search_its_training_and_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, sizes = tmp_path / "run", {"train": 8, "unlabeled": 8, "validation": 8}
    config = {
        "space": {"name": "robust-s4", "channels": 2},
        "learners": 2,
        "data": {"labeled_fraction": 0.2},
        "search": {"epochs": 2, "steps_per_epoch": 1, "v_warmup": 0.0, "architecture_warmup": 0.0, "batch_size": sizes},
        "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 8, "network": {"channels": 4, "cells": 3}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert main(["search", "--config", str(tmp_path / "config.yaml"), "--out", str(folder)]) == 0
    assert main(["train", str(folder)]) == 0
    assert main(["export", str(folder), "--format", "pt2"]) == 0
    capsys.readouterr()
    assert main(["describe", str(folder), "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    assert described["space"] == "robust-s4"
    assert json.loads((folder / "training" / "result.json").read_text())["parameters"] == described["parameters"]
    assert "noise" in (folder / "report.html").read_text()
