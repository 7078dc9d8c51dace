"""A space under a method: the pure function of a learner, with the random numbers of its step bound to it."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from smallgroup.methods.decisions import Rebuild
from smallgroup.methods.method import Architecture, Method, Noise, OperationGradients
from smallgroup.methods.sampling import decide
from smallgroup.runtime import Phase, precision, stream
from smallgroup.runtime.bounds import check_parameters
from smallgroup.spaces.binding import Bound
from smallgroup.spaces.costs import Cost, costs
from smallgroup.spaces.edges import weights_of_operations
from smallgroup.spaces.space import Masks, Mixture, Space, Transform
from smallgroup.spaces.weights import initial_weights


def on_host(architecture: Architecture) -> dict[str, Tensor]:
    """Return an architecture in main memory, where it is decided what is removed, derived and written down."""
    return {name: tensor.detach().cpu() for name, tensor in architecture.items()}


class Ahead(NamedTuple):
    """Random numbers of a step in main memory, and what they decide."""

    step: int
    noise: dict[tuple[Phase, int], Noise]
    """The noise of a step, by phase and sample."""
    active: dict[tuple[Phase, int], dict[str, list[list[bool]]]]
    """Masks [edges, operations] of operations with a weight, by phase, sample and kind; only if not all run."""
    columns: dict[tuple[Phase, int], dict[str, Tensor]]
    """Indices [edges] of the largest weights, by phase, sample and kind."""

    @property
    def tensors(self) -> list[Tensor]:
        """What has to be sent to a device."""
        own = [tensor for noise in self.noise.values() for tensor in noise.values()]
        return own + [column for columns in self.columns.values() for column in columns.values()]


class Relaxed:
    """`apply(weights, architecture, inputs, *, phase=None) -> logits`: what `smallgroup.group.Learner` is made of.

    Args:
        space: the choices, and the size of the supernet.
        method: how they are relaxed; every learner needs its own instance.
        seed: the seed of all random numbers; learners of a group share it.
        learner: the number of the learner; its random numbers differ from those of the others.
        channels_last: the memory layout of images and convolutions.
    """

    def __init__(
        self,
        space: Space,
        method: Method,
        *,
        seed: int = 0,
        learner: int = 0,
        channels_last: bool = True,
        cost: Cost = "multiply_adds",
    ) -> None:
        if method.state:
            raise ValueError(f"every learner must have its own method object, but this {method.name} is already in use")
        self.space, self.method, self.seed, self.learner, self.cost = space, method, seed, learner, cost
        self._first_space = space
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.step = 0
        self.stage = 0
        self._changes: dict[str, int] = {}
        self._noise: dict[tuple[Phase | None, int], Noise] = {}
        self._ahead: Ahead | None = None
        self._gradients: dict[Phase, OperationGradients] = {}
        """Those of this step that the method has not compared yet."""
        method.start(space)
        self._build({kind: method.mask(kind) for kind in space.kinds})

    def _build(self, masks: Masks) -> None:
        """Build the supernet of a stage. Operations that are removed later stay in it, and do not run."""
        self._built = {kind: mask.clone() for kind, mask in masks.items()}
        self.supernet = self.space.supernet(self.method.build_edge, self._built)
        self._bound = Bound(self.supernet)
        check_parameters(sum(parameter.numel() for parameter in self.supernet.parameters()))
        self._costs: dict[str, Tensor] | None = None
        self._weights_of_operations: list[list[str]] | None = None

    def __copy__(self) -> "Relaxed":
        """Return a frozen copy, which does not change while this one is trained."""
        other = object.__new__(Relaxed)
        other.__dict__.update(
            self.__dict__, method=deepcopy(self.method), _noise={}, _changes=dict(self._changes), _ahead=None
        )
        return other

    # What a learner starts from.

    def initial_weights(
        self, role: str, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> dict[str, Tensor]:
        """Return V ("v") or W ("w") at the start of the stage."""
        generator = stream(self.seed, self.learner, "weights", role, self.stage)
        return initial_weights(self.supernet, generator, dtype=dtype, device=device, memory_format=self.memory_format)

    def initial_architecture(
        self, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> dict[str, Tensor]:
        """Return A at the start of the stage."""
        generator = stream(self.seed, self.learner, "architecture", self.stage)
        return {name: t.to(device, dtype) for name, t in self.method.initial(self.space, generator).items()}

    # The function, and its hooks: see smallgroup.group.Apply.

    def __call__(
        self, weights: Mapping[str, Tensor], architecture: Architecture, inputs: Tensor, *, phase: Phase | None = None
    ) -> Tensor:
        """Compute logits, [batch, classes]; of a method with several samples [samples, batch, classes]."""
        channels = self.space.images.channels
        if inputs.dim() != 4 or inputs.shape[1] != channels:
            raise ValueError(f"images must be [batch, {channels}, height, width], but got {tuple(inputs.shape)}")
        inputs = inputs.contiguous(memory_format=self.memory_format)
        weights = self._with_frozen(weights)
        logits = []
        for sample in range(self.method.samples):
            mixtures = self.method.mix(architecture, self.noise(architecture, phase, sample), phase)
            self._bind(mixtures, phase, sample)
            logits.append(self._supernet_logits(weights, inputs, mixtures))
        return logits[0] if len(logits) == 1 else torch.stack(logits)

    def _with_frozen(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights, frozen ones as constants: without a gradient no optimizer moves them."""
        if (frozen := self.method.frozen) is None:
            return weights
        names = {name for own, stays in zip(self._operations, frozen.tolist(), strict=True) if stays for name in own}
        return {name: tensor.detach() if name in names else tensor for name, tensor in weights.items()}

    def derived_logits(self, weights: Mapping[str, Tensor], genotype: Any, inputs: Tensor) -> Tensor:  # noqa: ANN401
        """Return the logits of a genotype's cells alone, with the supernet's weights: what discretization costs."""
        chosen = self.space.chosen(genotype)
        mixtures = {kind: Mixture(table.to(inputs), evaluate="active") for kind, table in chosen.items()}
        inputs = inputs.contiguous(memory_format=self.memory_format)
        return self._supernet_logits(weights, inputs, mixtures)

    def _supernet_logits(
        self, weights: Mapping[str, Tensor], inputs: Tensor, mixtures: Mapping[str, Mixture]
    ) -> Tensor:
        with precision.around_pass(inputs.device):
            logits: Tensor = self._bound(weights, inputs, mixtures)
        return precision.widened(logits)

    def begin_step(self, step: int) -> None:
        """Seed the random numbers for iteration `step`; keep what was drawn ahead for it."""
        if step != self.step:  # in the order a-v-w a step begins twice, and the two halves have a gradient each
            self._gradients = {}
        if self._ahead is None or self._ahead.step != step:
            self._noise, self._ahead = {}, None
        self.step = step
        self.method.seen.clear()

    def begin_phase(self, phase: Phase, architecture: Architecture, loss: Callable[[], Tensor]) -> None:
        """Let the method change its noise after a look at the loss of the phase."""
        if type(self.method).look is Method.look:
            return
        for sample in range(self.method.samples):
            drawn = self.noise(architecture, phase, sample)
            seen = self.method.look(architecture, drawn, phase, partial(self._loss_under, loss, phase, sample))
            self._noise[phase, sample] = {name: tensor.detach() for name, tensor in seen.items()}

    def _loss_under(self, loss: Callable[[], Tensor], phase: Phase, sample: int, noise: Noise) -> Tensor:
        drawn, self._noise[phase, sample] = self._noise[phase, sample], noise
        try:
            with torch.enable_grad():
                return loss()
        finally:
            self._noise[phase, sample] = drawn

    @property
    def see_gradients(self) -> Callable[[Phase, Mapping[str, Tensor | None]], None] | None:
        """Collect gradients of the weights for a method that compares them; None: nobody looks at them."""
        return None if type(self.method).compare_gradients is Method.compare_gradients else self._see_gradients

    def _see_gradients(self, phase: Phase, gradients: Mapping[str, Tensor | None]) -> None:
        self._gradients[phase] = [[gradients[name] for name in own] for own in self._operations]
        if self._gradients.keys() == {"w", "val"}:
            self.method.compare_gradients(self._gradients.pop("w"), self._gradients.pop("val"))

    def penalty(self, architecture: Architecture) -> Tensor | None:
        """Return what the method adds to the validation loss."""
        return self.method.penalty(architecture, lambda: self._costs_beside(architecture))

    def _costs_beside(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the costs on the device of the architecture."""
        device = next(iter(architecture.values())).device
        return {kind: table.to(device) for kind, table in self.costs.items()}

    def combine(self, losses: Tensor, architecture: Architecture, size: int, phase: Phase | None) -> Tensor:
        """Return one loss for those of several samples."""
        noises = [self.noise(architecture, phase, sample) for sample in range(self.method.samples)]
        log_p = torch.stack([self.method.log_probability(architecture, noise).to(losses) for noise in noises])
        return self.method.combine(losses, log_p, size)

    def after_step(self, architecture: Architecture, before: Architecture) -> None:
        """Let the method correct the architecture when it has moved."""
        self.method.after_step(architecture, before, self.noise(before, "val", 0))

    # Random numbers.

    def noise(self, architecture: Architecture, phase: Phase | None, sample: int = 0) -> Noise:
        """Return what is random in a pass of this step: drawn at the first call, replayed at all others."""
        if (phase, sample) not in self._noise:
            constant = {name: tensor.detach() for name, tensor in architecture.items()}
            self._noise[phase, sample] = self.method.draw(constant, phase, self._stream("noise", phase, sample))
        return self._noise[phase, sample]

    @property
    def draws(self) -> bool:
        """Return whether the method draws random numbers in its passes."""
        return type(self.method).draw is not Method.draw

    def draw_ahead(self, host: Architecture, step: int) -> Ahead:
        """Draw for all phases of a step, for an architecture in main memory, and decide there what runs."""
        self._ahead = None
        self.begin_step(step)
        found = Ahead(step, {}, {}, {})
        with torch.no_grad():
            for phase in get_args(Phase):
                for sample in range(self.method.samples):
                    drawn = self.noise(host, phase, sample)
                    mixtures = self.method.mix(host, drawn, phase)
                    found.noise[phase, sample] = drawn
                    # Noise of another form is none that `decide` could make draw the same on a device.
                    found.active[phase, sample] = {
                        kind: (one.weights != 0).tolist()
                        for kind, one in mixtures.items()
                        if one.evaluate != "all" and kind in drawn and drawn[kind].shape == one.weights.shape
                    }
                    found.columns[phase, sample] = {
                        kind: mixtures[kind].weights.argmax(dim=1) for kind in found.active[phase, sample]
                    }
        self._noise = {}
        return found

    def take_draws(self, ahead: Ahead, there: Sequence[Tensor]) -> None:
        """Use what was drawn ahead, now that its tensors are on the device, in the order of `tensors`."""
        arrived = iter(there)
        self._noise = {key: {name: next(arrived) for name in noise} for key, noise in ahead.noise.items()}
        for key, columns in ahead.columns.items():
            for kind in columns:
                column = next(arrived)
                if kind in self._noise[key]:
                    decide(self._noise[key][kind], column)
        self._ahead = ahead

    def _stream(self, purpose: str, *key: int | str | None) -> torch.Generator:
        return stream(self.seed, self.learner, purpose, self.stage, self.step, *key)

    def _bind(self, mixtures: Mapping[str, Mixture], phase: Phase | None, sample: int) -> None:
        """Connect the method to its network: removed operations do not run, transforms have streams of their own."""
        if mixtures.keys() != self.space.kinds.keys():
            kinds, got = (", ".join(map(str, one)) or "none" for one in (self.space.kinds, mixtures))
            raise ValueError(f"method {self.method.name} must mix these kinds of cells: {kinds}; but got {got}")
        for kind, mixture in mixtures.items():
            if mixture.weights.shape != self.space.kinds[kind].shape:
                wanted, found = tuple(self.space.kinds[kind].shape), tuple(mixture.weights.shape)
                raise ValueError(
                    f"weights of method {self.method.name} must be [edges, operations] of kind {kind}, {wanted}, but "
                    f"got {found}"
                )
            mask = self.method.mask(kind)
            mixture.kept = (mask if mixture.kept is None else mask & torch.tensor(mixture.kept)).tolist()
            if self._ahead is not None and phase is not None:
                mixture.decided = self._ahead.active.get((phase, sample), {}).get(kind)
            mixture.streams = partial(self._stream, "operation", phase, sample)
            if type(self.method).transform is not Method.transform:
                mixture.transform = self._transform(phase, sample)
                mixture.transformed = self.method.transformed

    def _transform(self, phase: Phase | None, sample: int) -> Transform:
        which = self.method.transformed

        def transform(name: str, output: Tensor, cell: int, edge: int) -> Tensor:
            if which is not None and name not in which:
                return output
            generator = self._stream("transform", phase, sample, cell, edge, name)
            return self.method.transform(name, output, generator, phase)

        return transform

    # The course of a search.

    def rebuild(self, how: Rebuild) -> None:
        """Start a new stage: another size, the masks as they are now. Make weights and architecture anew."""
        changes = {**self._changes, **how.space}
        self.space, self._changes = self._changed_space(changes), changes
        self.stage += 1
        self._noise, self._ahead = {}, None
        self._build({kind: self.method.mask(kind) for kind in self.space.kinds})

    def marked(self) -> dict[str, Any]:
        """Return the state of the search, for `back_to`."""
        return {**self.__dict__, "method_state": dict(self.method.state)}

    def back_to(self, mark: Mapping[str, Any]) -> None:
        """Restore a state that `marked` returned, if a decision could not be carried out."""
        kept = dict(mark)
        self.method.state = kept.pop("method_state")
        self.__dict__.update(kept)

    def _changed_space(self, changes: Mapping[str, int]) -> Space:
        try:
            return replace(self._first_space, **changes)  # type: ignore[type-var]
        except TypeError:
            names = ", ".join(changes)
            raise ValueError(
                f"a new stage changes fields of {self._first_space.name}, but not all are: {names}"
            ) from None

    def derive(self, architecture: Architecture) -> Any:  # noqa: ANN401
        """Return the genotype that the architecture stands for."""
        return self.method.derive(self.space, on_host(architecture))

    def scores(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return how good the method considers each operation of each edge, by kind, in main memory."""
        return self.method.scores(on_host(architecture))

    @property
    def _operations(self) -> list[list[str]]:
        """The names of the weights of every operation that has some; looked for once."""
        if self._weights_of_operations is None:
            self._weights_of_operations = weights_of_operations(self.supernet)
        return self._weights_of_operations

    @property
    def costs(self) -> dict[str, Tensor]:
        """Return what each operation of each edge costs, by kind; it is counted once."""
        if self._costs is None:
            self._costs = costs(self.space, self.cost)
        return self._costs

    def state(self) -> dict[str, Tensor]:
        """Return what changes in a search besides weights and architecture, as named tensors."""
        own = {"stage": torch.tensor(self.stage), "step": torch.tensor(self.step)}
        changes = {f"space.{name}": torch.tensor(value) for name, value in self._changes.items()}
        built = {f"built.{kind}": mask.clone() for kind, mask in self._built.items()}
        return own | changes | built | {f"method.{name}": tensor.clone() for name, tensor in self.method.state.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state: rebuild the supernet of its stage and masks."""
        parts: dict[str, dict[str, Tensor]] = {"space": {}, "method": {}, "built": {}, "": {}}
        for name, tensor in state.items():
            room, _, key = name.partition(".") if "." in name else ("", "", name)
            if room not in parts:
                raise ValueError(f"a saved state must be one of a method in a space, but it has {name[:60]!r}")
            parts[room][key] = tensor
        own, built = parts[""], parts["built"]
        expected = {f"mask_{kind}" for kind in self.space.kinds}
        if (
            own.keys() != {"stage", "step"}
            or built.keys() != self.space.kinds.keys()
            or expected - parts["method"].keys()
        ):
            raise ValueError(f"a saved state must be one of a method in {self.space.name}, but parts of it are missing")
        self.method.state = {name: tensor.clone() for name, tensor in parts["method"].items()}
        self._changes = {name: int(tensor) for name, tensor in parts["space"].items()}
        self.space = self._changed_space(self._changes)
        self.stage = int(own["stage"])
        self._build(built)
        self._ahead = None
        self.begin_step(int(own["step"]))
