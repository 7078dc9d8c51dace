"""One network in training: what it is, a step of it in parts, and its state. Alone or in a group, it is the same."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data import Images
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.training.average import MovingAverage
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.optimizer import load_optimizer_state, make_optimizer, optimizer_state
from smallgroup.phases.training.slices import Slices
from smallgroup.runtime import stream
from smallgroup.runtime.checkpoints import take_up
from smallgroup.runtime.memory import check_batch
from smallgroup.spaces import definition_of
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.network import DerivedNetwork
from smallgroup.spaces.networks import build_network
from smallgroup.spaces.outputs import Outputs


class NonFiniteTrainingError(FloatingPointError):
    """A loss or a gradient is not finite; nothing has been changed."""


class Response(NamedTuple):
    """The outputs of a network on some images, and its losses on their labels."""

    logits: Tensor
    labels: Tensor
    loss: Tensor
    auxiliary_loss: Tensor


class Build(Protocol):
    """A function that makes a network: `build_network`, or another one that makes one of the same size."""

    def __call__(
        self,
        genotype: Genotype,
        network: NetworkDesign,
        /,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> DerivedNetwork:
        """Return the network of a design with its initial weights."""


class Trainee:
    """A cell in its large network, with an optimizer.

    A step has three parts: `begin`, then `answer` and `follow` for each piece of the batch, then `check` and `commit`.
    Until `commit` all of it can be undone.

    Args:
        learner: the place in a group, None for a training alone. Learner 0 draws the random numbers of a training
            alone, every other one has its own.
        build: makes the network of a design, in place of the one around the cell.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotype: Genotype,
        *,
        seed: int,
        learner: int | None = None,
        device: torch.device | str = "cpu",
        build: Build = build_network,
    ) -> None:
        self.config, self.data, self.genotype = config, data, genotype
        self.seed, self.device = seed, torch.device(device)
        spec = data.dataset.spec
        self.design = config.network.design(spec, genotype.space)
        images = -(-config.batch_size // config.accumulate)
        check_batch(images, spec.channels, spec.size, config.network.channels)
        self._whose = "" if learner is None else f" of learner {learner}"
        self._key = (seed, "evaluation", *(("learner", learner) if learner else ()))
        weights = stream(*self._key, "weights")
        self.network = build(genotype, self.design, generator=weights, device=device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.drops = definition_of(genotype.space).drops_paths
        # Looked up once: a network has a thousand layers to look through.
        self._weights, self._buffers = list(self.network.parameters()), list(self.network.buffers())
        self.optimizer = make_optimizer(config, self._weights)
        self.average = MovingAverage(self.network, config.average) if config.average else None
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        self.sums = dict.fromkeys(("loss", "auxiliary_loss", "wrong", "images"), 0.0)
        if learner is not None:
            self.sums["divergence"] = 0.0
        self._noted = dict.fromkeys(self.sums, 0.0)
        self._before: list[Tensor] = []
        self.slices = Slices(config.accumulate)
        """How batches are divided; over the processes of the training, where there are several."""

    # A step.

    @property
    def shipped(self) -> DerivedNetwork:
        """What is tested and kept: the average of the weights, if there is one."""
        return self.network if self.average is None else self.average.network

    def begin(self, epoch: int, passed: float = 0.0) -> None:
        """Set rate and drop path for a share of an epoch, and keep what a pass changes."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(epoch, passed)
        self.network.drop_path = self.config.drop(epoch) if self.drops else 0.0
        if not self.network.training:  # to say it to a thousand layers takes a while
            self.network.train()
        self._before = [buffer.clone() for buffer in self._buffers]  # running statistics
        self._noted = dict.fromkeys(self.sums, 0.0)

    def answer(self, images: Tensor, labels: Tensor, *, step: int, part: int) -> Response:
        """Return the outputs of a pass over a part of the batch."""
        with self._precision():
            outputs = Outputs.of(self.slices.passed(self.network, images, (*self._key, step, part)))
            loss, second = (self._loss(logits, labels) for logits in outputs)
        # Before anyone follows this answer: it is not the peers who are to blame for it.
        self._check_finite("loss", float((loss + self.config.auxiliary_weight * second).detach()), step)
        return Response(outputs.logits, labels, loss, second)

    def follow(
        self, answer: Response, *, share: float, step: int, divergence: Tensor | None = None, weight: float = 0.0
    ) -> None:
        """Add the gradient of a part, which is this share of the batch.

        In a group there is also how far the answer is from those of the peers, and what that counts for beside the
        labels; with weight 0 no bit of the gradient depends on it.
        """
        total = answer.loss + self.config.auxiliary_weight * answer.auxiliary_loss
        if divergence is not None and weight:
            total = total + weight * divergence
            self._check_finite("loss", float(total.detach()), step)
        # Over ranks gradients are averaged, and shares are those of the whole batch.
        self.scaler.scale(share * self.slices.ranks * total).backward()  # type: ignore[no-untyped-call]
        if not share:
            return
        count = len(answer.labels)
        self._noted["loss"] += count * float(answer.loss.detach())
        self._noted["auxiliary_loss"] += count * float(answer.auxiliary_loss.detach())
        self._noted["wrong"] += float((answer.logits.argmax(dim=1) != answer.labels).sum())
        self._noted["images"] += count
        if divergence is not None:
            self._noted["divergence"] += count * float(divergence.detach())

    def gather(self, weight: float) -> None:
        """Bring together what ranks have of a step, of which this one has computed a share."""
        self.slices.gather(weight, self._buffers, self._noted)

    def check_alike(self) -> None:
        """Refuse to go on if ranks have different networks."""
        self.slices.check_alike([*self._weights, *self._buffers])

    def check(self, step: int) -> None:
        """Clip the gradient, and refuse one that is not finite."""
        self.scaler.unscale_(self.optimizer)
        limit = math.inf if self.config.clip is None else self.config.clip
        norm = float(torch.nn.utils.clip_grad_norm_(self._weights, limit))
        # With float16 a gradient may overflow now and then: the scaler leaves that step out and scales less.
        if not self.scaler.is_enabled():
            self._check_finite("gradient", norm, step)

    def undo(self) -> None:
        """Undo the step that has begun: restore running statistics and drop gradients."""
        for buffer, saved in zip(self._buffers, self._before, strict=True):
            buffer.copy_(saved)
        self.optimizer.zero_grad()

    def commit(self) -> None:
        """Move the weights along the gradient."""
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.follow()
        for name, value in self._noted.items():
            self.sums[name] += value

    def _check_finite(self, what: str, value: float, step: int) -> None:
        if not math.isfinite(value):
            raise NonFiniteTrainingError(
                f"the {what}{self._whose} is not finite in step {step}; nothing was changed by this step"
            )

    def _loss(self, logits: Tensor | None, labels: Tensor) -> Tensor:
        if logits is None:
            return torch.zeros((), device=labels.device)
        return functional.cross_entropy(logits.float(), labels, label_smoothing=self.config.label_smoothing)

    def _precision(self) -> AbstractContextManager[Any]:
        """Return the context in which passes are computed: autocast, unless the precision is float32."""
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, _DTYPES[self.config.precision])

    # What is measured.

    def row(self, epoch: int) -> dict[str, Any]:
        """Return the row of metrics of an epoch that is over."""
        images = self.sums["images"]
        if not images:
            raise NonFiniteTrainingError(f"not one batch of epoch {epoch + 1} could be used{self._whose}")
        row = {
            "epoch": epoch,
            "loss": self.sums["loss"] / images,
            "train_error": 100 * self.sums["wrong"] / images,
            "lr": self.config.rate(epoch),
        }
        if self.data.validation is not None:
            row |= self._validation_row(self.validate())
        if self.design.auxiliary != "none":
            row["auxiliary_loss"] = self.sums["auxiliary_loss"] / images
        if self.drops and self.config.drop_path:
            row["drop_path"] = self.config.drop(epoch)
        if "divergence" in self.sums:
            row["divergence"] = self.sums["divergence"] / images
        return row

    def _validation_row(self, found: Evaluation) -> dict[str, float]:
        return {"validation_error": found.error}

    def forget(self) -> None:
        """Reset the counts for the next epoch."""
        self.sums = dict.fromkeys(self.sums, 0.0)

    def test(self) -> Evaluation:
        """Classify the test images, or the held-out ones, by the network as it is; there must be some."""
        dataset, tested = self.data.dataset, self.data.tested
        if tested is None:
            raise ValueError(f"{dataset.name} must have a test part to be tested on, but it has none")
        return self._look_at(*tested, "test" if self.data.held_out is None else "held-out")

    def validate(self) -> Evaluation:
        """Classify the validation images by the network as it is."""
        if self.data.validation is None:
            raise ValueError(f"{self.data.dataset.name} must have validation images to be measured on, but it has none")
        return self._look_at(self.data.dataset.train, self.data.validation, "validation")

    def _look_at(self, images: Images, indices: Tensor, which: str) -> Evaluation:
        """Classify images by the network that is shipped."""
        self.shipped.eval()
        about: dict[str, Any] = {"workers": self.data.workers, "device": self.device}
        sharing = self.slices if self.slices.ranks > 1 else None
        found = evaluate(self.logits, images, self.data.dataset, indices, **about, sharing=sharing)
        if not math.isfinite(found.loss):  # then the errors say nothing, although they are numbers
            raise NonFiniteTrainingError(
                f"the loss{self._whose} on the {which} images must be finite, but it is {found.loss}: the weights have "
                "grown too large; train again in a new folder with a lower training.lr or training.clip"
            )
        return found

    def logits(self, images: Tensor) -> Tensor:
        """Compute logits of the network that is shipped, in float32 whatever it was trained in."""
        return Outputs.of(self.shipped(images.contiguous(memory_format=torch.channels_last))).logits

    # The state between two steps.

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next step of this network depends on."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= optimizer_state(self.optimizer, self.network.named_parameters())
        record: dict[str, Any] = {"sums": dict(self.sums), "scaler": self.scaler.state_dict()}
        if self.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self.average.network.state_dict().items()}
            record["averaged"] = self.average.steps
        return tensors, record

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up a saved state, in the very tensors there are."""
        for name, tensor in self.network.state_dict().items():
            take_up(tensor, tensors[f"network.{name}"], name)
        load_optimizer_state(self.optimizer, self.network.named_parameters(), tensors)
        if self.average is not None:
            for name, tensor in self.average.network.state_dict().items():
                take_up(tensor, tensors[f"average.{name}"], f"average.{name}")
            self.average.steps = int(record["averaged"])
        self.sums = {name: float(value) for name, value in record["sums"].items()}
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(dict(record["scaler"]))


_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
