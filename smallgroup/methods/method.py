"""The method protocol: how a choice between operations is relaxed, learned and read off at the end.

A method is a class that overrides as few of these hooks as it differs from DARTS in. Each learner has an instance
of its own. Options are its dataclass fields and do not change; what changes during a search is in `state`, a
dictionary of tensors that is saved and loaded with the run.

Drawing and mixing are apart. `draw` makes the random numbers of a pass, once per phase and step; `mix` is a
deterministic, differentiable function of the architecture and of them. So every probe of a finite difference, and
every resumed run, sees the same draw.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from smallgroup.methods.decisions import Continue, Decision, EpochEnd, Progress
from smallgroup.runtime import Phase
from smallgroup.runtime.constants import constant_on
from smallgroup.spaces.edges import MixedEdge
from smallgroup.spaces.kinds import Rule
from smallgroup.spaces.space import EdgeParts, Evaluated, Mixture, Space

Architecture = Mapping[str, Tensor]
"""Named tensors; by default `alpha_<kind>`, [edges, operations], for every kind of cell of the space."""
Noise = Mapping[str, Tensor]
"""The random numbers of one pass."""
OperationGradients = Sequence[Sequence[Tensor | None]]
"""For every operation those of its weights; None for a weight that took no part."""


@dataclass(frozen=True)
class ArchitectureOptimizer:
    """The optimizer of the architecture: Adam with these settings."""

    lr: float = 3e-4
    betas: tuple[float, float] = (0.5, 0.999)
    weight_decay: float = 1e-3
    clip: float | None = None
    """Largest L2 norm of its gradient; None: any."""


@dataclass
class Method:
    """DARTS, with hooks to change every part of it."""

    name: ClassVar[str]
    weight_under_limits: ClassVar[float] = 0.0
    """Option `cost_weight` where the final network of a run has limits and nobody gives it; 0: it stays."""
    needs: ClassVar[str] = ""
    """A key of the section `space` that a space must have to be searched, such as `cells`; empty: none."""
    rule: ClassVar[Rule] = Rule("top2")
    """How the space derives a genotype from the scores."""
    evaluate: ClassVar[Evaluated] = "all"
    """Which operations of an edge run."""
    removed: ClassVar[frozenset[str]] = frozenset()
    """Operations of the space that the method does not choose from."""
    level: ClassVar[Literal["bilevel", "single"]] = "bilevel"
    """Whether the publication trains the architecture on validation data; in a group it always is."""
    optimizer: ClassVar[ArchitectureOptimizer] = ArchitectureOptimizer()
    transformed: ClassVar[frozenset[str] | None] = None
    """Operations whose output `transform` changes; None: all, if it is overridden."""
    warmup: ClassVar[float] = 0.0
    """Share of a stage, as published, before the architecture moves."""

    state: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)
    seen: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)
    """What passes of the current step found out first, see `recall`; it is neither saved nor loaded."""

    # Architecture.

    def initial(self, space: Space, generator: torch.Generator) -> dict[str, Tensor]:
        """Return the architecture at the start: 1e-3 N(0, 1) for every operation of every edge."""
        return {
            f"alpha_{name}": 1e-3 * torch.randn(kind.shape, generator=generator) for name, kind in space.kinds.items()
        }

    # From the architecture to mixing weights.

    def draw(self, architecture: Architecture, phase: Phase | None, generator: torch.Generator) -> Noise:  # noqa: ARG002
        """Draw the random numbers of one pass; DARTS has none. Phase None is evaluation, which draws nothing."""
        return {}

    def mix(self, architecture: Architecture, noise: Noise, phase: Phase | None) -> dict[str, Mixture]:
        """Return a mixture for every kind of cell, as a differentiable function of the architecture."""
        return {
            kind: Mixture(self.relax(alpha, noise.get(kind), phase), evaluate=self.evaluate)
            for kind, alpha in self.logits(architecture).items()
        }

    def relax(self, alpha: Tensor, noise: Tensor | None, phase: Phase | None) -> Tensor:  # noqa: ARG002
        """Return the weights of one kind, [edges, operations]; removed operations have -inf in `alpha`."""
        return alpha.softmax(dim=1)

    def look(
        self,
        architecture: Architecture,  # noqa: ARG002
        noise: Noise,
        phase: Phase,  # noqa: ARG002
        loss: Callable[[Noise], Tensor],  # noqa: ARG002
    ) -> Noise:
        """Return the noise of a training phase, changed after a look at its loss.

        `loss(noise)` is the loss of the phase under other noise, differentiable in it; weights and architecture are
        constant. What is returned counts as drawn: `mix` differentiates through what it makes of it, and no more.
        """
        return noise

    # Edges and operations.

    def build_edge(self, parts: EdgeParts) -> nn.Module:
        """Build the module of one edge, which is called with (inputs, Choice)."""
        return MixedEdge(parts)

    def transform(
        self,
        operation: str,  # noqa: ARG002
        output: Tensor,
        generator: torch.Generator,  # noqa: ARG002
        phase: Phase | None,  # noqa: ARG002
    ) -> Tensor:
        """Return what replaces an operation's output, such as dropout after a skip connection.

        The generator is that of (learner, step, phase, cell, edge, operation), always at its beginning.
        """
        return output

    def recall(self, generator: torch.Generator, find: Callable[[], Tensor]) -> Tensor:
        """Return a number that randomness depends on, as the first pass of this phase and step found it.

        For noise in proportion to an output, say: every probe of a finite difference then sees the same noise.
        """
        key = generator.initial_seed()
        if key not in self.seen:
            self.seen[key] = find().detach()
        return self.seen[key]

    def compare_gradients(self, training: OperationGradients, validation: OperationGradients) -> None:
        """Look at the gradients of the training loss and of the validation loss in the weights.

        Called in every step that computes both. Entry i of each is of the same operation: all of them that have
        weights, edge by edge and cell by cell. `frozen` is the answer to them.
        """

    @property
    def frozen(self) -> Tensor | None:
        """Return, for each operation that has weights as above, whether its weights are frozen; None: none is."""
        return None

    # Losses.

    def penalty(self, architecture: Architecture, costs: Callable[[], Mapping[str, Tensor]]) -> Tensor | None:  # noqa: ARG002
        """Return what is added to the validation loss; `costs()` has what each operation of each edge costs."""
        return None

    def log_probability(self, architecture: Architecture, noise: Noise) -> Tensor:  # noqa: ARG002
        """Return log p(draw | architecture) of one sample, for `combine`."""
        return torch.zeros(())

    def combine(self, losses: Tensor, log_probabilities: Tensor, size: int) -> Tensor:  # noqa: ARG002
        """Return one loss for those of several samples, each a mean over a batch of `size`."""
        return losses.mean()

    # The course of a search.

    @property
    def samples(self) -> int:
        """Return the number of draws that a pass averages over; see `combine`."""
        return 1

    @property
    def most_skips(self) -> int | None:
        """Return the most skip connections that a derived (normal) cell may have; None: any number."""
        return None

    @property
    def stages(self) -> int:
        """Return the number of stages, equally long, in each of which learning rates start again; see `Rebuild`."""
        return 1

    @property
    def reach(self) -> int:
        """Return how many epochs back `Rollback` may go; that many states are kept and saved."""
        return 0

    def after_step(self, architecture: Architecture, before: Architecture, noise: Noise) -> None:
        """Correct the architecture in place when it has moved; `noise` is that of the validation pass."""

    def schedule(self, progress: Progress) -> None:
        """Set what depends on time, such as a temperature, in `state`; called before every step."""

    def trains_architecture(self, progress: Progress) -> bool:  # noqa: ARG002
        """Return whether this step moves the architecture after the warm-up, such as in every n-th step alone."""
        return True

    def end_epoch(self, epoch: EpochEnd) -> Decision:  # noqa: ARG002
        """Prune (through `keep`), stop, go back or rebuild when an epoch is over."""
        return Continue()

    # What is left at the end.

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return how good each operation of each edge is, by kind; -inf for removed operations."""
        return self.masked({kind: alpha.softmax(dim=1) for kind, alpha in self.logits(architecture).items()})

    def derive(self, space: Space, architecture: Architecture) -> Any:  # noqa: ANN401
        """Return the genotype that the architecture stands for.

        Override `derive_from` instead where scores are enough: the consensus of several learners has nothing else.
        """
        return self.derive_from(space, self.scores(architecture))

    def derive_from(self, space: Space, scores: Mapping[str, Tensor]) -> Any:  # noqa: ANN401
        """Return the genotype that scores stand for, of one learner or the mean of several."""
        return space.derive(scores, self.rule)

    # Masks: which operations are still there.

    def start(self, space: Space) -> None:
        """Start with all operations of the space except those that the method does not use."""
        self.state.clear()
        for name, kind in space.kinds.items():
            kept = torch.tensor([operation not in self.removed for operation in kind.operations])
            mask = kept & torch.tensor(kind.offers)
            if not bool(mask.any(dim=1).all()):
                left = ", ".join(sorted(self.removed))
                raise ValueError(f"{self.name} does not use {left}, but an edge of {space.name} offers nothing else")
            self.state[f"mask_{name}"] = mask

    def keep(self, kind: str, mask: Tensor) -> None:
        """Remove from a kind of cell the operations where the mask is False; every edge keeps at least one."""
        present = self.state.get(f"mask_{kind}")
        if present is None:
            raise ValueError(f"a mask must be of a kind of cell of the space, but there is no kind {kind!r}")
        if mask.dtype != torch.bool or mask.shape != present.shape:
            found = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise ValueError(f"a mask of {kind} must be bool of shape {tuple(present.shape)}, but it is {found}")
        if not bool(mask.any(dim=1).all()):
            raise ValueError(f"every edge must keep an operation, but a mask of {kind} leaves an edge without")
        self.state[f"mask_{kind}"] = mask.clone()

    def mask(self, kind: str) -> Tensor:
        """Return [edges, operations]: True for operations that have not been removed."""
        return self.state[f"mask_{kind}"]

    def masked(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the values by kind, with -inf for removed operations."""
        return {kind: v.masked_fill(~constant_on(self.mask(kind), v.device), -torch.inf) for kind, v in values.items()}

    def logits(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the logits of the operations by kind, with -inf for removed operations."""
        alphas = {name.removeprefix("alpha_"): t for name, t in architecture.items() if name.startswith("alpha_")}
        return self.masked(alphas)
