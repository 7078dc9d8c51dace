"""The course of a training: networks that see the same batches, step by step and epoch by epoch."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from smallgroup.data import Reader
from smallgroup.data.errors import check_same_data
from smallgroup.data.training_data import TrainingData
from smallgroup.group import Exchange, LocalExchange
from smallgroup.phases.evaluate import BATCH
from smallgroup.phases.passes import FORWARD, PassTime, pass_time
from smallgroup.phases.sharing import meeting, share_rows, share_states, telling
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.trainee import Response, Trainee


class TrainingCourse(ABC):
    """One network or several, trained on all training images. All of them take a step, or none does.

    With an `exchange` other processes compute some of the networks. Then all processes must make the same calls; the
    end of an epoch and `state` bring all networks here.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        trainees: Sequence[Trainee],
        exchange: Exchange | None = None,
    ) -> None:
        self.config, self.data, self.trainees = config, data, list(trainees)
        self.exchange = LocalExchange(len(self.trainees)) if exchange is None else exchange
        self.slices = trainees[0].slices
        is_shared = self.slices.ranks > 1  # then every process computes a slice of the batch, of the same network
        self.mine = self.trainees if is_shared else [self.trainees[k] for k in self.exchange.mine]
        """The networks that this process computes."""
        self._shared = False
        """Whether no step was taken since all networks were brought here."""
        self.seed, device = trainees[0].seed, trainees[0].device
        self.batches = data.train(config.batch_size, self.seed, device, self.slices.rows)
        self._reader = Reader(self.batches)
        self.steps_per_epoch = config.steps_per_epoch or len(self.batches)
        self.steps = config.epochs * self.steps_per_epoch
        self.step, self.epochs_done = 0, 0
        self.seconds: dict[str, float] = {}
        """Where the time went since the job was made: steps, and the looks at the ends of epochs."""

    # What each kind of training says of itself.

    @abstractmethod
    def learn(self, images: Tensor, labels: Tensor) -> None:
        """Learn from a batch, up to the point where all networks can commit their step."""

    @abstractmethod
    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """Return the rows of metrics of an epoch that is over."""

    # The job.

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
        """Take one step; at the end of an epoch return its metrics."""
        start = time.perf_counter()
        if not self._epoch_is_over:
            self._take_step()
        start = self._count("steps", start)
        if not self._epoch_is_over:
            return None
        rows = self.rows(self.epochs_done)
        self._count("evaluation", start)
        for trainee in self.trainees:
            trainee.forget()
        self.epochs_done += 1
        return rows

    def leave_out(self) -> bool:
        """Count a step that failed as taken: the batch of the next one is another."""
        if self._epoch_is_over:  # then it was no batch that failed
            return False
        self.step += 1
        return True

    def _count(self, part: str, start: float) -> float:
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - start
        return now

    def measure(self, steps: int = 3, clock: Callable[[], float] = time.monotonic) -> float:
        """Measure the seconds of a step, the first not counted; the job cannot be used afterwards."""
        times = []
        for _ in range(steps + 1):
            start = clock()
            self._take_step()
            times.append(clock() - start)
        return median(times[1:])

    def reckoned(self, measured: Callable[[Trainee], PassTime] | None = None) -> float:
        """Estimate the seconds of the whole training from passes of a few images; the job cannot be used afterwards.

        A rough number.
        """
        size, tests = self.config.batch_size, 0 if self.data.tested is None else len(self.data.tested[1])
        looks = self.config.epochs if self.tracks_test else 1
        lines = [(measured or pass_time_of)(trainee) for trainee in self.trainees]
        return sum(self.steps * line(size) + FORWARD * looks * tests * line(BATCH) / BATCH for line in lines)

    def close(self) -> None:
        """End the processes that read images."""
        self._reader.close()

    def _take_step(self) -> None:
        with telling(self.exchange):
            images, labels = self._reader.batch(self.step)
            images = images.contiguous(memory_format=torch.channels_last)
            for trainee in self.mine:
                trainee.begin(self.epoch, self.step % self.steps_per_epoch / self.steps_per_epoch)
        try:
            with meeting(self.exchange):
                self.learn(images, labels)
        except BaseException:
            for trainee in self.mine:
                trainee.undo()
            raise
        self._shared = False
        for trainee in self.mine:
            trainee.commit()
        self.step += 1

    @property
    def tracks_test(self) -> bool:
        """Whether the test images are looked at after every epoch."""
        return self.config.track_test and self.data.tested is not None

    # The state between two steps.

    def shared_state(self) -> dict[str, Any]:
        """Return the position of the course, whatever the networks are."""
        return {"step": self.step, "epochs_done": self.epochs_done, "data": self.data.digest}

    def load_shared_state(self, record: Mapping[str, Any]) -> None:
        """Go on from there, on the same images."""
        check_same_data(self.data.digest, record.get("data"))
        self.step, self.epochs_done = int(record["step"]), int(record["epochs_done"])


class LabeledCourse(TrainingCourse):
    """Networks that follow the gradients of one batch of labeled images."""

    @abstractmethod
    def follow(self, answers: Sequence[Response], share: float) -> None:
        """Add the gradients of a part of the batch, which is this share of it."""

    def learn(self, images: Tensor, labels: Tensor) -> None:
        """Compute the gradients of the batch, then check and clip them."""
        self._gradients(images, labels)
        for trainee in self.mine:
            trainee.check(self.step)

    def _gradients(self, images: Tensor, labels: Tensor) -> None:
        """Compute the gradients of the batch, part by part if it is divided."""
        pieces = self.slices.pieces(len(self.batches.indices_of(self.step)))
        for piece in pieces:
            last, (low, high) = piece is pieces[-1], (piece.low, piece.high)
            with self.slices.part(piece, last=last):
                answers = [
                    trainee.answer(images[low:high], labels[low:high], step=self.step, part=piece.part)
                    for trainee in self.mine
                ]
                with self.slices.adding(last=last):
                    self.follow(answers, piece.share)
        for trainee in self.mine:
            trainee.gather(sum(piece.share for piece in pieces))


class SeveralNetworks(TrainingCourse):
    """A course of several networks: rows and the state, network by network."""

    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """Return one row per learner, each measured where the learner is computed."""
        self._share()

        def row(k: int) -> dict[str, Any]:
            trainee = self.trainees[k]
            found = {"learner": k, **trainee.row(epoch)}
            return {**found, "test_error": trainee.test().error} if self.tracks_test else found

        return share_rows(self.exchange, row)

    def _share(self) -> None:
        """Bring networks here that are computed elsewhere, if they have moved since."""
        if not self._shared:
            for k, state in share_states(self.exchange, lambda k: self.trainees[k].state()).items():
                self.trainees[k].load_state(*state)
            self._shared = True

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next step depends on."""
        self._share()
        states = [trainee.state() for trainee in self.trainees]
        tensors = {f"{k}.{name}": tensor for k, (own, _) in enumerate(states) for name, tensor in own.items()}
        return tensors, {**self.shared_state(), "learners": [record for _, record in states]}

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Restore the state that a checkpoint holds."""
        self.load_shared_state(record)
        for k, (trainee, own) in enumerate(zip(self.trainees, record["learners"], strict=True)):
            place = f"{k}."
            mine = {name.removeprefix(place): tensor for name, tensor in tensors.items() if name.startswith(place)}
            trainee.load_state(mine, own)


def pass_time_of(trainee: Trainee) -> PassTime:
    """Measure a network: seconds of a pass with its way back, by the number of images."""
    dataset = trainee.data.dataset
    image = torch.zeros(dataset.channels, dataset.size, dataset.size, device=trainee.device)
    trainee.network.train()
    return pass_time(trainee.logits, list(trainee.network.parameters()), image)
