"""What the definition of a space has to keep to, so that every command can rely on it."""

import json
from itertools import islice

import pytest
import torch

from smallgroup.runtime import stream
from smallgroup.spaces import Genotype, Space, SpaceDefinition, definition_of
from smallgroup.spaces.choices import score
from smallgroup.spaces.count import multiply_adds, parameters
from smallgroup.spaces.design import IMAGES
from smallgroup.spaces.drawing import draw, one_line
from smallgroup.spaces.genotypes import dumps, loads
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.networks import build_network, design_of
from smallgroup.spaces.outputs import Outputs
from smallgroup.testing.small import small_network, small_space
from smallgroup.testing.space_contract import SpaceContract


class DefinitionContract(SpaceContract):
    """Tests of a registered space: inherit, and give its name. The tests of `SpaceContract` are included."""

    name: str

    def space(self) -> Space:
        """Return the space at a tiny size."""
        return small_space(self.name)

    def network(self, genotype: Genotype) -> torch.nn.Module:
        """Return the network of a genotype at a tiny size."""
        return small_network(genotype)

    def definition(self) -> SpaceDefinition:
        """Return the definition under test, as it is registered."""
        return definition_of(self.name)

    def genotypes(self, count: int = 4) -> list[Genotype]:
        """Return random genotypes of the space, the same in every test."""
        generator = stream("testing", "genotypes")
        return [self.definition().random(generator) for _ in range(count)]

    def test_names_and_kinds_agree(self) -> None:
        """Check that the definition, the space and its genotypes have one name and the same cells."""
        space = self.space()
        assert self.definition().name == space.name == self.name
        assert self.definition().kinds == space.kinds
        assert {genotype.space for genotype in self.genotypes()} == {self.name}

    def test_genotypes_are_written_and_read_back(self) -> None:
        """Check that genotypes survive the form that files have."""
        for genotype in self.genotypes():
            assert loads(dumps(genotype))[0] == genotype
            assert hash(loads(dumps(genotype))[0]) == hash(genotype)

    @pytest.mark.parametrize("damaged", [None, 3, "", "x", [], ["x"], {}, {"x": 1}, [[None]]])
    def test_damaged_genotypes_are_refused(self, damaged: object) -> None:
        """Check that damaged genotypes raise a ValueError, whatever is in the file."""
        with pytest.raises(ValueError, match=r"\w"):
            self.definition().from_plain(damaged)

    def test_genotypes_are_drawn(self) -> None:
        """Check that drawings show every chosen operation, as text and in a line."""
        space, definition = self.space(), self.definition()
        for genotype in self.genotypes():
            drawing, graphs = draw(genotype), definition.graphs(genotype)
            assert "\n" not in one_line(genotype)
            assert graphs.keys() <= space.kinds.keys()
            for kind, table in space.chosen(genotype).items():
                edges = {
                    (edge.source, node, edge.operation)
                    for node, into in enumerate(graphs[kind].nodes, start=len(graphs[kind].inputs))
                    for edge in into
                }
                for edge, operation in table.nonzero().tolist():
                    name = space.kinds[kind].operations[operation]
                    assert (*space.kinds[kind].edges[edge], name) in edges
                    assert name in drawing

    def test_genotypes_beside_another_are_genotypes(self) -> None:
        """Check that neighbors score no more and differ, mutants can be built, and equal functions have one form."""
        definition, space = self.definition(), self.space()
        generator = stream("testing", "beside")
        scores = {name: torch.rand(kind.shape, generator=generator) for name, kind in space.kinds.items()}
        derived = space.derive(scores, Rule())
        for other in islice(definition.neighbors(derived, scores), 5):
            assert other != derived
            assert score(other, scores) <= score(derived, scores)
            small_network(other)
        for genotype in self.genotypes(2):
            assert definition.form(genotype) == definition.form(loads(dumps(genotype))[0])
            small_network(definition.mutated(genotype, generator))
            small_network(definition.sampled(generator))

    def test_decisions_make_genotypes(self) -> None:
        """Check that any options of the decisions make a genotype, and other options of one another genotype."""
        definition, generator = self.definition(), stream("testing", "decisions")
        sizes = definition.decisions()
        for _ in range(5):
            options = [int(torch.randint(size, (), generator=generator)) for size in sizes]
            genotype = definition.decided(options)
            assert genotype == definition.decided(tuple(options))
            assert genotype.space == self.name
            small_network(genotype)

    def test_networks_are_built_for_every_dataset_of_the_papers(self) -> None:
        """Check networks for every dataset of the papers, counted without memory, with the design read from a file."""
        for dataset in IMAGES:
            design = design_of(self.genotypes(1)[0], dataset)
            plain = json.loads(json.dumps(design.to_plain()))
            assert self.definition().network_design.from_plain(plain) == design
            network = build_network(self.genotypes(1)[0], design, device="meta")
            assert parameters(network) > 0
            assert multiply_adds(network, design.images.size) > 0

    def test_heads_and_dropped_paths_are_as_declared(self) -> None:
        """Check that a network has the heads that the definition names, and drops paths if it says so."""
        definition, (genotype,) = self.definition(), self.genotypes(1)
        for kind in definition.auxiliaries:
            config = definition.network_config(channels=4, **definition.depth(deep=False), auxiliary=kind)
            network = build_network(genotype, definition.design(config, IMAGES["cifar10"]), device="meta")
            assert (network.auxiliary is None) == (kind == "none")
            if definition.drops_paths:
                network.drop_path = 0.5
            else:
                with pytest.raises(ValueError, match="drop_path must be 0"):
                    network.drop_path = 0.5

    def test_networks_are_trained(self) -> None:
        """Check that every weight has a gradient, and that the key of a pass has no effect in eval mode."""
        definition, (genotype,) = self.definition(), self.genotypes(1)
        design = definition.design(
            definition.network_config(channels=4, **definition.depth(deep=False), auxiliary="none"), self.space().images
        )
        network = build_network(genotype, design)
        images = torch.rand(4, *design.images.shape, generator=stream("testing", "images"))
        Outputs.of(network.train()(images, (0, 0))).logits.square().sum().backward()  # type: ignore[no-untyped-call]
        assert [name for name, weight in network.named_parameters() if weight.grad is None] == []
        network.eval()
        assert torch.equal(Outputs.of(network(images, (0, 1))).logits, Outputs.of(network(images)).logits)
