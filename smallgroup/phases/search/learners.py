"""Learners and their optimizers out of a config, and their state as named tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from smallgroup.group import Learner, Optimizers
from smallgroup.group.fused_sgd import FusedSGD
from smallgroup.methods import Method, Rebuild, Relaxed
from smallgroup.phases.search.schedule import Schedule
from smallgroup.runtime.checkpoints import take_up
from smallgroup.runtime.checks import check_choice, check_number
from smallgroup.runtime.without_compiler import compiler_left_out
from smallgroup.spaces import Space


@dataclass
class Searcher:
    """One learner of a search, with all that moves it."""

    relaxed: Relaxed
    learner: Learner
    optimizers: Optimizers
    schedule: Schedule
    ended: str = ""
    """Why the method ended the search of this learner; its architecture stays, and it goes on to learn and to teach."""
    history: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    """The architecture at the end of every epoch, where the method may go back to one."""
    changed: dict[str, float] = field(default_factory=dict)
    """Settings that a method changed when it went back, see `Rollback`."""

    @property
    def watches_epochs(self) -> bool:
        """Whether the method decides something at the end of an epoch."""
        return type(self.relaxed.method).end_epoch is not Method.end_epoch

    @property
    def rates(self) -> dict[str, float]:
        """Return the learning rates by role: V, W and A."""
        return {role: float(optimizer.param_groups[0]["lr"]) for role, _, optimizer in self._roles()}

    @property
    def summary(self) -> str:
        """What the network of its stage is like."""
        space, count = self.relaxed.space, sum(tensor.numel() for tensor in self.learner.w.values())
        words = [f"{self.relaxed.method.name} in {space.name}", f"{count:,} parameters"]
        if self.schedule.number_of_stages > 1:
            left = sum(int(self.relaxed.method.mask(kind).sum()) for kind in space.kinds)
            edges = sum(len(kind.edges) for kind in space.kinds.values())
            stage = f"stage {self.relaxed.stage + 1} of {self.schedule.number_of_stages}"
            cells = f"{getattr(space, 'cells', None)} cells"
            words[1:1] = [stage, cells, f"{left / edges:g} operations per edge"]
        return ", ".join(words)

    def moves(self, step: int) -> bool:
        """Return whether the architecture moves in a step."""
        progress = self.schedule.progress(step)
        return (
            self.schedule.kind(step) == "all" and not self.ended and self.relaxed.method.trains_architecture(progress)
        )

    def prepare(self, step: int) -> None:
        """Set learning rates and everything else that depends on time."""
        rates = ((self.optimizers.v, self.schedule.v_rate(step)), (self.optimizers.w, self.schedule.w_rate(step)))
        for optimizer, rate in rates:
            for group in [] if optimizer is None else optimizer.param_groups:
                group["lr"] = rate
                group["weight_decay"] = self.settings["weight_decay"]
        self.relaxed.method.schedule(self.schedule.progress(step))

    @property
    def scores(self) -> dict[str, Tensor]:
        """Its score of every operation, by kind of cell."""
        return self.relaxed.scores(self.learner.architecture)

    @property
    def settings(self) -> dict[str, float]:
        """What a method may change when it goes back, as it is now."""
        return {"weight_decay": self.schedule.config.weights.weight_decay, **self.changed}

    def check_settings(self, settings: Mapping[str, float]) -> None:
        """Refuse settings that a method cannot change."""
        for name, value in settings.items():
            check_choice("a setting that a method changes", name, tuple(self.settings))
            check_number(name, value)

    def logits(self, inputs: Tensor) -> Tensor:
        """Return W's logits for images, without the random parts of training."""
        return self.relaxed(self.learner.w, self.learner.architecture, inputs)

    def rebuilt(self, how: Rebuild) -> "Searcher":
        """Return the same learner at the beginning of its next stage."""
        self.relaxed.rebuild(how)
        kept = self if how.keep_architecture else None
        made = _at_a_stage(self.relaxed, self.schedule, self.learner.device, kept)
        made.changed = self.changed
        return made

    def remember(self, epoch: int) -> None:
        """Keep the architecture of an epoch."""
        self.history[epoch] = {name: tensor.clone() for name, tensor in self.learner.architecture.items()}

    def check_known(self, epoch: int) -> None:
        """Refuse an epoch that was not yet."""
        if epoch not in self.history:
            last, name = max(self.history), self.relaxed.method.name
            raise ValueError(f"a method can go back to epochs 0 to {last}, but {name} asked for {epoch}")

    def go_back(self, epoch: int) -> None:
        """Make the architecture that of an epoch."""
        with torch.no_grad():
            for name, tensor in self.learner.architecture.items():
                tensor.copy_(self.history[epoch][name])

    def state(self) -> dict[str, Tensor]:
        """Return weights, architecture, moments of the optimizers, and what the method keeps."""
        result = {f"relaxed.{name}": tensor for name, tensor in self.relaxed.state().items()}
        for epoch, architecture in self.history.items():
            result |= {f"history.{epoch}.{name}": tensor for name, tensor in architecture.items()}
        for role, tensors, optimizer in self._roles():
            for name, tensor in tensors.items():
                result[f"{role}.{name}"] = tensor
                for key, value in optimizer.state.get(tensor, {}).items():
                    if value is not None:
                        result[f"{role}.{name}/{key}"] = torch.as_tensor(value)
        return result

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take up a saved state, in the very tensors there are if they are of the same stage."""
        prefix, stage = "relaxed.", self.relaxed.stage
        self.relaxed.load_state({n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)})
        if self.relaxed.stage != stage:
            made = _at_a_stage(self.relaxed, self.schedule, self.learner.device)
            self.learner, self.optimizers = made.learner, made.optimizers
        self.history = {}
        for name, tensor in state.items():
            if name.startswith("history."):
                _, epoch, own = name.split(".", 2)
                self.history.setdefault(int(epoch), {})[own] = tensor.clone()
        self._check_complete(state)
        for role, tensors, optimizer in self._roles():
            optimizer.state.clear()  # of a state that had not stepped yet there are no moments
            for name, tensor in tensors.items():
                take_up(tensor, state[f"{role}.{name}"], f"{role}.{name}")
                moments = f"{role}.{name}/"
                saved = {n.removeprefix(moments): t for n, t in state.items() if n.startswith(moments)}
                if saved:
                    optimizer.state[tensor] = {key: _like(tensor, value, moments) for key, value in saved.items()}

    def _check_complete(self, state: Mapping[str, Tensor]) -> None:
        """Refuse a state that lacks a tensor, as one of an earlier version does whose supernet was another."""
        needed = (f"{role}.{name}" for role, tensors, _ in self._roles() for name in tensors)
        missing = next((name for name in needed if name not in state), None)
        if missing is not None:
            raise ValueError(
                f"a checkpoint must hold every weight of the {self.relaxed.space.name} supernet, but {missing} is "
                "missing: it was written by a version with another supernet; start the search again in a new folder"
            )

    def _roles(self) -> list[tuple[str, Mapping[str, Tensor], Optimizer]]:
        own, learner = self.optimizers, self.learner
        roles = [("v", learner.v or {}, own.v), ("w", learner.w, own.w), ("a", learner.architecture, own.architecture)]
        return [(role, tensors, optimizer) for role, tensors, optimizer in roles if optimizer is not None]


def of_learner(tensors: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    """Return the part of a search's saved tensors that is the state of a learner."""
    own = f"{k}."
    return {name.removeprefix(own): tensor for name, tensor in tensors.items() if name.startswith(own)}


def make_searcher(
    space: Space,
    method: Method,
    schedule: Schedule,
    *,
    seed: int,
    number: int,
    device: torch.device | str = "cpu",
) -> Searcher:
    """Build a learner at the beginning of a search."""
    return _at_a_stage(
        Relaxed(space, method, seed=seed, learner=number, cost=schedule.config.cost), schedule, torch.device(device)
    )


def _at_a_stage(relaxed: Relaxed, schedule: Schedule, device: torch.device, kept: Searcher | None = None) -> Searcher:
    """Build a learner at the beginning of a stage: fresh weights, and a fresh architecture unless `kept` has one."""
    # Where nobody learns from V there is none.
    v = relaxed.initial_weights("v", device=device) if schedule.teaches else None
    w = relaxed.initial_weights("w", device=device)
    architecture = relaxed.initial_architecture(device=device) if kept is None else kept.learner.architecture
    asked, own, weights = schedule.config.architecture, relaxed.method.optimizer, schedule.config.weights

    def sgd(tensors: Mapping[str, Tensor]) -> FusedSGD:
        values = list(tensors.values())
        return FusedSGD(
            values,
            lr=weights.lr,
            momentum=weights.momentum,
            weight_decay=weights.weight_decay,
            nesterov=weights.nesterov,
        )

    def adam() -> Adam:
        with compiler_left_out():
            return Adam(
                list(architecture.values()),
                lr=schedule.architecture_rate(own.lr, min(relaxed.stage, schedule.number_of_stages - 1)),
                betas=own.betas if asked.betas is None else asked.betas,
                weight_decay=own.weight_decay if asked.weight_decay is None else asked.weight_decay,
            )

    optimizers = Optimizers(
        v=None if v is None else sgd(v),
        w=sgd(w),
        architecture=adam() if kept is None else kept.optimizers.architecture,
        v_clip=weights.clip,
        w_clip=weights.clip,
        architecture_clip=asked.clip or own.clip,
    )
    return Searcher(relaxed, Learner(relaxed, architecture, v, w), optimizers, schedule)


def _like(tensor: Tensor, value: Tensor, name: str) -> Tensor:
    """Return a moment in the layout of its tensor; Adam's count of steps stays as it is."""
    if value.ndim == 0 < tensor.ndim:
        return value.clone()
    take_up(moment := torch.empty_like(tensor, requires_grad=False), value, name)
    return moment
