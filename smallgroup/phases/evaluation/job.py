"""Training from scratch as a job: what a step is, what an epoch leaves behind, and the state between two steps."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD

from smallgroup.data import Reader
from smallgroup.data.errors import check_same_data
from smallgroup.data.training_data import TrainingData
from smallgroup.networks import Outputs, build_network
from smallgroup.phases.evaluate import Evaluation, evaluate
from smallgroup.phases.evaluation.config import TrainingConfig
from smallgroup.runtime import stream
from smallgroup.spaces.genotypes import AnyGenotype, space_of


class NonFiniteTrainingError(ArithmeticError):
    """A loss or a gradient is not finite; nothing has been changed."""


class TrainingJob:
    """A cell in its large network, trained on all training images."""

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        genotype: AnyGenotype,
        *,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.data, self.genotype = config, data, genotype
        self.seed, self.device = seed, torch.device(device)
        dataset, space = data.dataset, space_of(genotype)
        self.design = config.network.design(
            classes=len(dataset.classes), image_channels=dataset.channels, image_size=dataset.size, space=space
        )
        weights = stream(seed, "evaluation", "weights")
        self.network = build_network(genotype, self.design, generator=weights, device=device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.drops = space != "nas-bench-201"
        self.optimizer = SGD(
            self.network.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.precision == "float16")
        self.batches = data.train(config.batch_size, seed, device)
        self._reader = Reader(self.batches)
        self.steps_per_epoch = config.steps_per_epoch or len(self.batches)
        self.steps = config.epochs * self.steps_per_epoch
        self.step, self.epochs_done = 0, 0
        self._sums = {"loss": 0.0, "auxiliary_loss": 0.0, "wrong": 0.0, "images": 0.0}

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.step >= self.steps and not self._epoch_is_over

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return min(self.step // self.steps_per_epoch, self.config.epochs - 1)

    @property
    def _epoch_is_over(self) -> bool:
        """Whether the steps of an epoch are taken, but what it leaves behind is not there yet."""
        return self.step == (self.epochs_done + 1) * self.steps_per_epoch

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """One step of SGD; at the end of an epoch its metrics."""
        if not self._epoch_is_over:
            self._take_step()
        if not self._epoch_is_over:
            return None
        row = self._row()
        self._sums = dict.fromkeys(self._sums, 0.0)
        self.epochs_done += 1
        return [row]

    def measure(self, steps: int = 3) -> float:
        """Seconds of a step, the first not counted; the job cannot be used afterwards."""
        times = []
        for _ in range(steps + 1):
            start = time.monotonic()
            self._take_step()
            times.append(time.monotonic() - start)
        return median(times[1:])

    # A step.

    def _take_step(self) -> None:
        rate, drop = self.config.rate(self.epoch), self.config.drop(self.epoch) if self.drops else 0.0
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.drop_path = drop
        self.network.train()
        images, labels = self._reader.batch(self.step)
        images = images.contiguous(memory_format=torch.channels_last)
        before = [buffer.clone() for buffer in self.network.buffers()]
        try:
            found = self._gradients(images, labels)
            self._clip_and_check()
        except BaseException:
            for buffer, saved in zip(self.network.buffers(), before, strict=True):  # running statistics
                buffer.copy_(saved)
            self.optimizer.zero_grad()
            raise
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        for name, value in found.items():
            self._sums[name] += value
        self.step += 1

    def _gradients(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        """The gradient of the batch, part by part if it is divided; what is noted of it."""
        found = dict.fromkeys(self._sums, 0.0)
        parts = min(self.config.accumulate, len(images) // 2)  # batch norm needs two
        for part, (x, y) in enumerate(_parts(images, labels, parts)):
            share = len(x) / len(images)
            with torch.autocast(self.device.type, _DTYPES[self.config.precision], enabled=self._mixed):
                outputs = Outputs.of(self.network(x, (self.seed, "evaluation", self.step, part)))
                loss, second = (self._loss(logits, y) for logits in outputs)
                total = loss + self.config.auxiliary_weight * second
            if not math.isfinite(float(total.detach())):
                raise NonFiniteTrainingError(
                    f"the loss is not finite in step {self.step}; nothing was changed by this step"
                )
            self.scaler.scale(share * total).backward()  # type: ignore[no-untyped-call]
            found["loss"] += len(x) * float(loss.detach())
            found["auxiliary_loss"] += len(x) * float(second.detach())
            found["wrong"] += float((outputs.logits.argmax(dim=1) != y).sum())
            found["images"] += len(x)
        return found

    def _loss(self, logits: Tensor | None, labels: Tensor) -> Tensor:
        if logits is None:
            return torch.zeros((), device=labels.device)
        return functional.cross_entropy(logits.float(), labels, label_smoothing=self.config.label_smoothing)

    def _clip_and_check(self) -> None:
        self.scaler.unscale_(self.optimizer)
        limit = math.inf if self.config.clip is None else self.config.clip
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), limit))
        # With float16 a gradient may overflow now and then: the scaler leaves that step out and scales less.
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            raise NonFiniteTrainingError(
                f"the gradient is not finite in step {self.step}; nothing was changed by this step"
            )

    @property
    def _mixed(self) -> bool:
        return self.config.precision != "float32"

    # What is measured.

    def _row(self) -> dict[str, Any]:
        images, epoch = self._sums["images"], self.epochs_done
        row = {
            "epoch": epoch,
            "loss": self._sums["loss"] / images,
            "train_error": 100 * self._sums["wrong"] / images,
            "lr": self.config.rate(epoch),
        }
        if self.design.auxiliary != "none":
            row["auxiliary_loss"] = self._sums["auxiliary_loss"] / images
        if self.drops and self.config.drop_path:
            row["drop_path"] = self.config.drop(epoch)
        if self.config.track_test and self.data.dataset.test is not None:
            row["test_error"] = self.test().error
        return row

    def test(self) -> Evaluation:
        """The test images, classified by the network as it stands."""
        dataset = self.data.dataset
        if dataset.test is None:
            raise ValueError(f"{dataset.name} must have a test part to be tested on, but it has none")
        self.network.eval()
        return evaluate(
            self.logits,
            dataset.test,
            dataset,
            torch.arange(len(dataset.test)),
            workers=self.data.workers,
            device=self.device,
        )

    def logits(self, images: Tensor) -> Tensor:
        """Of the network in eval mode, in float32 whatever it was trained in: as it is shipped."""
        return Outputs.of(self.network(images.contiguous(memory_format=torch.channels_last))).logits

    # The state between two steps.

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next step depends on."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            momentum = self.optimizer.state.get(parameter, {}).get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum.{name}"] = momentum
        record = {"step": self.step, "epochs_done": self.epochs_done, "sums": dict(self._sums)}
        return tensors, {**record, "scaler": self.scaler.state_dict(), "data": self.data.digest}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Take up a saved state, in the very tensors there are."""
        check_same_data(self.data.digest, record.get("data"))
        with torch.no_grad():
            for name, tensor in self.network.state_dict().items():
                tensor.copy_(tensors[f"network.{name}"])
        for name, parameter in self.network.named_parameters():
            momentum = tensors.get(f"momentum.{name}")
            if momentum is not None:
                kept = torch.empty_like(parameter, requires_grad=False).copy_(momentum)
                self.optimizer.state[parameter] = {"momentum_buffer": kept}
        self.step, self.epochs_done = int(record["step"]), int(record["epochs_done"])
        self._sums = {name: float(value) for name, value in record["sums"].items()}
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(dict(record["scaler"]))


_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def _parts(images: Tensor, labels: Tensor, parts: int) -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(images.tensor_split(parts), labels.tensor_split(parts), strict=True)
