"""What every space has to keep to, so that methods and groups can rely on it."""

from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.methods import Darts, Relaxed
from smallgroup.runtime import stream
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.kinds import Kind, Rule
from smallgroup.spaces.space import EdgeParts, Mixture, Space, Transform
from smallgroup.spaces.weights import initial_weights, initialize
from smallgroup.testing.groups import batches_for, group_of

RULES = get_args(get_type_hints(Rule)["name"])


class SpaceContract:
    """Tests of a space: inherit, and return it at a small size from `space`, and a network from `network`."""

    def space(self) -> Space:
        """Return a small instance with at least 4 classes."""
        raise NotImplementedError

    def network(self, genotype: Any) -> nn.Module:  # noqa: ANN401
        """Return the network derived from a genotype, at a small size, built on the meta device."""
        raise NotImplementedError

    def test_the_supernet_has_no_buffers_and_takes_no_memory(self) -> None:
        """Check that the supernet computes a function of its inputs alone."""
        supernet = self.space().supernet(MixedEdge, {})
        assert not list(supernet.named_buffers())
        assert all(p.is_meta for p in supernet.parameters())

    def test_building_draws_no_random_number(self) -> None:
        """Check that building does not touch the global generator."""
        before = torch.get_rng_state()
        self.space().supernet(MixedEdge, {})
        assert torch.equal(before, torch.get_rng_state())

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_the_supernet_is_a_pure_function(self, dtype: torch.dtype) -> None:
        """Check that the supernet gives the same bits twice, changes nothing, and keeps batch size and dtype."""
        space = self.space()
        weights, mixtures, images = self._parts(dtype)
        saved = {name: tensor.clone() for name, tensor in weights.items()}
        supernet = space.supernet(MixedEdge, {})
        first = functional_call(supernet, weights, (images, mixtures))
        assert first.dtype == dtype
        assert first.shape[0] == len(images)
        assert first.dim() == 2
        assert torch.equal(first, functional_call(supernet, weights, (images, mixtures)))
        assert all(torch.equal(saved[name], tensor) for name, tensor in weights.items())

    def test_every_operation_of_every_edge_counts(self) -> None:
        """Check that each mixing weight changes the logits, except of `none` and of what an edge does not offer."""
        space = self.space()
        weights, mixtures, images = self._parts(torch.float64)
        supernet = space.supernet(MixedEdge, {})
        leaves = {kind: mixture.weights.clone().requires_grad_() for kind, mixture in mixtures.items()}
        logits: Tensor = functional_call(supernet, weights, (images, {k: Mixture(leaf) for k, leaf in leaves.items()}))
        gradients = torch.autograd.grad(logits.square().sum(), list(leaves.values()))
        for kind, gradient in zip(leaves, gradients, strict=True):
            offered = torch.tensor(space.kinds[kind].offers)
            for i, name in enumerate(space.kinds[kind].operations):
                expected = offered[:, i] & (name != "none")
                assert torch.equal(gradient[:, i] != 0, expected), f"{name} in {kind}"

    def test_operations_without_weight_need_not_run(self) -> None:
        """Check that running one operation per edge gives the logits of running all, if it alone has weight."""
        space = self.space()
        weights, _, images = self._parts(torch.float64)
        supernet = space.supernet(MixedEdge, {})
        generator = stream("testing", "active")
        for _ in range(4):
            chosen = {}
            for kind, spec in space.kinds.items():
                picks = torch.tensor(spec.offers).double().multinomial(1, generator=generator)[:, 0]
                chosen[kind] = nn.functional.one_hot(picks, len(spec.operations)).double()
            outputs = [
                functional_call(supernet, weights, (images, {k: Mixture(w, evaluate=how) for k, w in chosen.items()}))
                for how in ("all", "active", "detached")
            ]
            assert torch.allclose(outputs[0], outputs[1], atol=1e-12)
            assert torch.allclose(outputs[0], outputs[2], atol=1e-12)  # other kernels may round differently

    def test_edges_are_those_the_builder_makes_and_have_their_factors(self) -> None:
        """Check that every edge comes from the given builder, and that its factor multiplies all of its output."""
        space = self.space()
        built: list[nn.Module] = []

        def build(parts: EdgeParts) -> nn.Module:
            built.append(MixedEdge(parts))
            return built[-1]

        supernet = space.supernet(build, {})
        held = {id(module) for module in supernet.modules()}
        assert built
        assert all(id(edge) in held for edge in built)
        weights, mixtures, images = self._parts(torch.float64)
        factors = {
            kind: torch.rand(len(spec.edges), generator=stream("testing", kind)).double()
            for kind, spec in space.kinds.items()
        }
        apart = {kind: Mixture(m.weights, edges=factors[kind]) for kind, m in mixtures.items()}
        merged = {kind: Mixture(m.weights * factors[kind][:, None]) for kind, m in mixtures.items()}
        outputs = [functional_call(supernet, weights, (images, each)) for each in (apart, merged)]
        assert torch.allclose(outputs[0], outputs[1], atol=1e-10)

    def test_outputs_are_transformed_cell_by_cell_and_edge_by_edge(self) -> None:
        """Check that every operation that runs is shown once, with its place, and removed ones are not."""
        space = self.space()
        weights, mixtures, images = self._parts(torch.float64)
        supernet = space.supernet(MixedEdge, {})
        places: list[tuple[str, str, int, int]] = []

        def noting(kind: str) -> Transform:
            def transform(name: str, output: Tensor, cell: int, edge: int) -> Tensor:
                places.append((kind, name, cell, edge))
                return output

            return transform

        for kind, mixture in mixtures.items():
            mixture.transform = noting(kind)
            mixture.kept = [[name != "skip_connect" for name in space.kinds[kind].operations]] * len(mixture.weights)
        functional_call(supernet, weights, (images, mixtures))
        assert len(set(places)) == len(places), "two outputs have one place"
        for kind, spec in space.kinds.items():
            cells = {cell for found, _, cell, _ in places if found == kind}
            expected = {(n, c, e) for c in cells for e in range(len(spec.edges)) for n in spec.offered(e)}
            expected = {place for place in expected if place[0] not in ("none", "skip_connect")}
            assert {(n, c, e) for found, n, c, e in places if found == kind} == expected

    def test_masks_leave_operations_out(self) -> None:
        """Check that a supernet with one operation less per edge still runs."""
        space = self.space()
        masks = {kind: _one_operation_per_edge(spec) for kind, spec in space.kinds.items()}
        small, large = space.supernet(MixedEdge, masks), space.supernet(MixedEdge, {})
        assert _size(small) < _size(large)
        weights = initial_weights(small, stream("testing"), dtype=torch.float64)
        mixtures = {kind: Mixture(mask.double()) for kind, mask in masks.items()}
        logits = functional_call(small, weights, (batches_for(space)[0][0], mixtures))
        assert bool(logits.isfinite().all())
        for kind, spec in space.kinds.items():
            with pytest.raises(ValueError, match="every edge"):
                space.supernet(MixedEdge, {kind: torch.zeros(spec.shape, dtype=torch.bool)})

    @pytest.mark.parametrize("rule", RULES)
    def test_derived_genotypes_are_valid_and_can_be_built(self, rule: Any) -> None:  # noqa: ANN401
        """Check every rule on random scores; the same scores give the same genotype."""
        space = self.space()
        generator = stream("testing", "scores")
        for _ in range(3):
            scores = {kind: torch.rand(spec.shape, generator=generator) for kind, spec in space.kinds.items()}
            genotype = space.derive(scores, Rule(rule))
            assert genotype == space.derive(scores, Rule(rule))
            network = initialize(self.network(genotype), generator).eval()
            assert bool(network(torch.randn(2, *space.images.shape, generator=generator)).isfinite().all())

    @pytest.mark.parametrize("rule", RULES)
    def test_derived_genotypes_have_no_dead_operations(self, rule: Any) -> None:  # noqa: ANN401
        """Check that operations other than `none` move the logits, also where `none` scores high and cuts paths."""
        space = self.space()
        weights, _, images = self._parts(torch.float64)
        supernet = space.supernet(MixedEdge, {})
        generator = stream("testing", "dead")
        for lead in (0.0, 0.3, 0.6):
            scores = {kind: torch.rand(spec.shape, generator=generator) for kind, spec in space.kinds.items()}
            for kind, spec in space.kinds.items():
                if "none" in spec.operations:
                    scores[kind][:, spec.operations.index("none")] += lead
            chosen = space.chosen(space.derive(scores, Rule(rule, 0.7)))
            leaves = {kind: table.double().requires_grad_() for kind, table in chosen.items()}
            mixtures = {kind: Mixture(leaf) for kind, leaf in leaves.items()}
            logits: Tensor = functional_call(supernet, weights, (images, mixtures))
            gradients = torch.autograd.grad(logits.square().sum(), list(leaves.values()))
            for (kind, table), gradient in zip(chosen.items(), gradients, strict=True):
                for edge, operation in table.nonzero().tolist():
                    name = space.kinds[kind].operations[operation]
                    assert name == "none" or float(gradient[edge, operation]) != 0, f"{name} on edge {edge} of {kind}"

    @pytest.mark.parametrize("rule", RULES)
    def test_what_a_genotype_has_is_known_by_edge_and_operation(self, rule: Any) -> None:  # noqa: ANN401
        """Read as scores, what was chosen gives the genotype again, its edges perhaps in another order."""
        space = self.space()
        generator = stream("testing", "chosen")
        scores = {kind: torch.rand(spec.shape, generator=generator) for kind, spec in space.kinds.items()}
        genotype = space.derive(scores, Rule(rule))
        chosen = space.chosen(genotype)
        again = space.chosen(space.derive({kind: c + scores[kind] for kind, c in chosen.items()}, Rule(rule, 1.0)))
        for kind, table in chosen.items():
            assert torch.equal(table, again[kind])
            assert bool(((table == 0) | (table == 1)).all())

    def test_removed_operations_are_not_derived(self) -> None:
        """Check that an operation whose score is -inf is never derived."""
        space = self.space()
        real = [name for name in next(iter(space.kinds.values())).operations if name != "none"]
        for name in ("skip_connect" if "skip_connect" in real else real[0], real[-1]):
            scores = {}
            for kind, spec in space.kinds.items():
                scores[kind] = torch.zeros(spec.shape)
                if name in spec.operations:
                    scores[kind][:, spec.operations.index(name)] = -torch.inf
            for rule in RULES:
                assert name not in repr(space.derive(scores, Rule(rule)))

    def test_scores_that_cannot_be_read_are_refused(self) -> None:
        """Check that NaN, a wrong shape and a missing kind are refused."""
        space = self.space()
        good = {kind: torch.zeros(spec.shape) for kind, spec in space.kinds.items()}
        kind = next(iter(good))
        for bad in (good | {kind: good[kind] / 0}, good | {kind: torch.zeros(1, 1)}, {}):
            with pytest.raises(ValueError, match="scores"):
                space.derive(bad, Rule())

    @pytest.mark.parametrize("mode", ["first-order", "finite-difference", "exact"])
    def test_a_group_takes_steps(self, mode: str) -> None:
        """Check steps of two DARTS learners in every mode."""
        space = self.space()
        group = group_of(space, [Darts(), Darts()], torch.float32, hypergradient=mode)
        report = group.step(*batches_for(space, torch.float32))
        assert report.skipped == 0
        for learner in report.learners:
            assert all(size > 0 for term, size in learner.norms.items() if mode != "first-order" or term == "direct")

    def _parts(self, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Mixture], Tensor]:
        space = self.space()
        relaxed = Relaxed(space, Darts())
        mixtures = relaxed.method.mix(relaxed.initial_architecture(dtype=dtype), {}, None)
        return relaxed.initial_weights("w", dtype=dtype), mixtures, batches_for(space, dtype)[0][0]


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _one_operation_per_edge(kind: Kind) -> Tensor:
    """Return a mask that keeps an operation without weights on each edge, or else its first one."""
    free = ("none", "skip_connect")
    kept = [next((name for name in kind.offered(e) if name in free), kind.offered(e)[0]) for e in range(kind.shape[0])]
    return torch.tensor([[name == own for name in kind.operations] for own in kept])
