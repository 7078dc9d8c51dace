"""A network of a group in training: W as in a training alone, V beside it, and the pure function of both."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smallgroup.data.training_data import TrainingData
from smallgroup.group import Learner, Optimizers
from smallgroup.group.inputs import Inputs
from smallgroup.group.report import LearnerReport
from smallgroup.group.tensors import Tensors
from smallgroup.phases.evaluate import Evaluation
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.optimizer import AnyOptimizer, load_optimizer_state, make_optimizer, optimizer_state
from smallgroup.phases.training.trainee import Build, Trainee
from smallgroup.runtime import Phase, stream
from smallgroup.runtime.checkpoints import take_up
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs

SUMS = ("loss", "auxiliary_loss", "wrong", "images", "v_loss", "taught_loss")
"""What is added up over an epoch."""


class TaughtTrainee(Trainee):
    """A network whose W is trained as in a training alone, and a learner of a `SmallGroup`.

    V and W are two sets of weights of one network. Passes use the statistics of their batch. Only the pass of W on
    labeled images moves running statistics, which are those of the network that is tested and kept. An auxiliary head
    is left out: a group learns from one answer per network.

    Args:
        trains_v: whether there is V, which makes the labels.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotype: Genotype,
        *,
        seed: int,
        learner: int,
        trains_v: bool,
        device: torch.device | str = "cpu",
        build: Build = build_network,
    ) -> None:
        def without_head(genotype: Genotype, design: NetworkDesign, /, **about: Any) -> DerivedNetwork:  # noqa: ANN401
            return build(genotype, replace(design, auxiliary="none"), **about)

        super().__init__(config, data, genotype, seed=seed, learner=learner, device=device, build=without_head)
        self.has_left_out_head = self.design.auxiliary != "none"
        self.design = replace(self.design, auxiliary="none")
        self.sums = dict.fromkeys(SUMS, 0.0)
        self.v: dict[str, nn.Parameter] = {}
        self.v_optimizer: AnyOptimizer | None = None
        if trains_v:
            network = without_head(genotype, self.design, generator=stream(*self._key, "weights", "v"), device=device)
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.v = dict(network.named_parameters())
            self.v_optimizer = make_optimizer(config, list(self.v.values()))
        self.apply = NetworkApply(self.network, self._key, self._precision)
        self.learner = Learner(self.apply, {}, self.v or None, dict(self.network.named_parameters()))

    @property
    def optimizers(self) -> Optimizers:
        """What moves V and W; both are clipped like the gradient of a training alone."""
        return Optimizers(v=self.v_optimizer, w=self.optimizer, v_clip=self.config.clip, w_clip=self.config.clip)

    def begin(self, epoch: int, passed: float = 0.0) -> None:
        """Begin the step for W and V, each with its rate."""
        super().begin(epoch, passed)
        if self.v_optimizer is not None:
            for group in self.v_optimizer.param_groups:
                group["lr"] = self.config.rate(epoch, passed)

    def note(self, report: LearnerReport, labels: Tensor) -> None:
        """Keep the numbers of a step that the group took."""
        count, logits = len(labels), self.apply.logits
        assert logits is not None  # of the pass of W on labeled images, which every step has
        self._noted["loss"] += count * (report.w_loss or 0.0)
        self._noted["v_loss"] += count * (report.v_loss or 0.0)
        self._noted["taught_loss"] += count * (report.w_unlabeled_loss or 0.0)
        self._noted["wrong"] += float((logits.argmax(dim=1) != labels).sum())
        self._noted["images"] += count

    def commit(self) -> None:
        """Finish the step after the group has moved V and W."""
        if self.average is not None:
            self.average.follow()
        for name, value in self._noted.items():
            self.sums[name] += value

    def row(self, epoch: int) -> dict[str, Any]:
        """Return the metrics of an epoch, with the losses of V and on the labels of peers (lambda included)."""
        row, images = super().row(epoch), self.sums["images"]
        return {**row, "v_loss": self.sums["v_loss"] / images, "taught_loss": self.sums["taught_loss"] / images}

    def _validation_row(self, found: Evaluation) -> dict[str, float]:
        return {"validation_error": found.error, "validation_loss": found.loss}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state to save: that of a network alone, and V with its optimizer."""
        tensors, record = super().state()
        tensors |= {f"v.weights.{name}": tensor.detach() for name, tensor in self.v.items()}
        if self.v_optimizer is not None:
            moments = optimizer_state(self.v_optimizer, self.v.items())
            tensors |= {f"v.{name}": tensor for name, tensor in moments.items()}
        return tensors, record

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up a saved state, in the very tensors there are."""
        super().load_state(tensors, record)
        for name, tensor in self.v.items():
            take_up(tensor.detach(), tensors[f"v.weights.{name}"], f"v.weights.{name}")
        if self.v_optimizer is not None:
            own = {name.removeprefix("v."): tensor for name, tensor in tensors.items() if name.startswith("v.")}
            load_optimizer_state(self.v_optimizer, self.v.items(), own)


class NetworkApply:
    """A derived network as the pure function of a learner, in training mode.

    Of an unlabeled batch it takes the weak view to label and the strong one to learn. Labels are made without drop
    path; every other phase draws its own.
    """

    def __init__(
        self,
        network: DerivedNetwork,
        key: tuple[int | str, ...],
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.network, self._key, self._step, self._precision = network, key, 0, precision
        self._buffers = dict(network.named_buffers())
        self.logits: Tensor | None = None
        """Of the last pass of W over labeled images."""

    def begin_step(self, step: int) -> None:
        """Make the random numbers those of a step."""
        self._step = step

    def __call__(
        self,
        weights: Tensors,
        architecture: Tensors,  # noqa: ARG002 -- it is given
        inputs: Inputs,
        *,
        phase: Phase | None = None,
    ) -> Tensor:
        """Return the logits of a phase's pass."""
        network, own = self.network, phase == "w"
        images: Tensor = inputs["weak" if phase == "label" else "strong"] if isinstance(inputs, Mapping) else inputs
        # Only the pass of W on human labels moves running statistics, as in a training alone.
        copies = {} if own else {name: buffer.clone() for name, buffer in self._buffers.items()}
        key = (*self._key, self._step, 0) if own else (*self._key, self._step, 0, str(phase))
        drop_path = network.drop_path
        if phase == "label":
            network.drop_path = 0.0
        try:
            with self._precision():
                found = functional_call(network, {**copies, **weights}, (images, key))
        finally:
            network.drop_path = drop_path
        logits = Outputs.of(found).logits.float()
        if own:
            self.logits = logits.detach()
        return logits
