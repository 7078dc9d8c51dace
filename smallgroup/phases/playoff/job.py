"""The play-off as a job: short trainings of candidate cells in turns, compared on the validation part."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from smallgroup.data.errors import check_same_data
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.passes import FORWARD
from smallgroup.phases.playoff.config import PlayOffConfig
from smallgroup.phases.playoff.rounds import CandidateTurn, Halving, going_on, worth_trying
from smallgroup.phases.training.trainee import Trainee
from smallgroup.spaces.genotype import Genotype

MEASURED = 3
"""Steps that are timed of each candidate, after one that is not."""


@dataclass(frozen=True)
class Candidate:
    """A cell that may be the group's answer, and where it comes from."""

    source: str
    genotype: Genotype
    learner: int | None = None
    """The learner whose derived cell it is, if it is one."""


@dataclass
class CandidateState:
    """The state of a candidate in the play-off."""

    steps: int = 0
    seconds: float = 0.0
    """CPU seconds of its steps and of the looks at the validation images."""
    round: int = -1
    """The last round in which it was compared, counted from 0."""
    validation_error: float | None = None
    validation_loss: float | None = None


class PlayOffJob:
    """Candidates train from scratch on the training part; after each round the worse half stops.

    Every candidate sees the same batches in the same order. Rates are constant and the averaged weights are compared,
    so that a training can be compared at any time and goes on from there in the next round. Without seconds in the
    config, `search_steps` of the search before it say how long it is.
    """

    def __init__(
        self,
        config: PlayOffConfig,
        data: TrainingData,
        candidates: Sequence[Candidate],
        *,
        seed: int,
        search_steps: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if data.validation is None or not candidates:
            raise ValueError("a play-off needs candidates and validation images, but one of them is missing")
        # Small parts of small datasets do not fill a batch.
        config = config.model_copy(update={"batch_size": min(config.batch_size, len(data.trained))})
        self.config, self.data, self.candidates = config, data, list(candidates)
        self.training = config.training
        self.seed, self.device = seed, torch.device(device)
        self._in_steps = config.steps_per_search_step * search_steps
        self.batches = data.train(config.batch_size, seed, device)
        self.standings = [CandidateState() for _ in candidates]
        self.left = list(range(len(self.candidates)))
        self.step, self._round, self._place, self._taken = 0, 0, 0, 0
        self._trainees: dict[int, Trainee] = {}
        self.costs = [1.0] * len(self.candidates) if config.seconds is None else []
        """What a step of each candidate costs; seconds are measured when the first step is taken."""
        if self.costs:
            self._keep(worth_trying(self._halving, config.least_steps))

    # The job.

    @property
    def finished(self) -> bool:
        """Return whether one candidate is left."""
        return len(self.left) == 1

    @property
    def winner(self) -> int:
        """Return the only candidate that is left."""
        (winner,) = self.left
        return winner

    @property
    def steps(self) -> int:
        """Steps in all; who goes on decides how many the later rounds take, so that until the end it is about that."""
        if not self.costs:
            return 0
        halving, left = self._halving, self.left
        total = self.step - self._taken
        total += sum(turn.steps for turn in halving.turns(self._round, left)[self._place :]) if len(left) > 1 else 0
        for number in range(self._round + 1, halving.rounds):
            left = left[: (len(left) + 1) // 2]
            total += sum(turn.steps for turn in halving.turns(number, left))
        return total

    def advance(self) -> Sequence[Mapping[str, Any]] | None:
        """Take one step of the candidate whose turn it is; at the end of the turn, return how it compares."""
        if not self.costs:
            self.costs = [self._cost(candidate) for candidate in range(len(self.candidates))]
            self._keep(worth_trying(self._halving, self.config.least_steps))
        turn = self._turn
        if self._taken < turn.steps:
            self._take_step(turn)
        if self._taken < turn.steps:
            return None
        row = self._look(turn)
        self._place, self._taken = self._place + 1, 0
        if self._place == len(self.left):
            self._halve()
        return [row]

    def leave_out(self) -> bool:
        """Count a step that failed as taken: the batch of the next one is another."""
        if not self.costs or self._taken >= self._turn.steps:
            return False
        self.standings[self._turn.candidate].steps += 1
        self.step, self._taken = self.step + 1, self._taken + 1
        return True

    def close(self) -> None:
        """Do nothing: batches are made one by one, so nothing is open."""

    @property
    def _halving(self) -> Halving:
        if self.config.seconds is None:
            return Halving(self._in_steps, self.costs)
        assert self.data.validation is not None  # checked at the beginning
        return Halving(self.config.seconds, self.costs, FORWARD * len(self.data.validation) / self.config.batch_size)

    @property
    def _turn(self) -> CandidateTurn:
        return self._halving.turns(self._round, self.left)[self._place]

    def _trainee(self, candidate: int) -> Trainee:
        if candidate not in self._trainees:
            genotype = self.candidates[candidate].genotype
            self._trainees[candidate] = Trainee(self.training, self.data, genotype, seed=self.seed, device=self.device)
        return self._trainees[candidate]

    def _keep(self, number: int) -> None:
        """Go on with the first candidates alone, before any has begun."""
        self.candidates, self.costs = self.candidates[:number], self.costs[:number]
        self.standings, self.left = self.standings[:number], self.left[:number]

    def _take_step(self, turn: CandidateTurn) -> None:
        trainee, standing = self._trainee(turn.candidate), self.standings[turn.candidate]
        start = time.process_time()
        _one_step(trainee, *self.batches.batch(standing.steps), step=standing.steps)
        standing.seconds += time.process_time() - start
        standing.steps += 1
        self.step, self._taken = self.step + 1, self._taken + 1

    def _cost(self, candidate: int) -> float:
        """Return the CPU seconds of a step, measured on a network that is not used afterwards."""
        trainee, times = self._trainee(candidate), []
        for step in range(MEASURED + 1):
            start = time.process_time()
            _one_step(trainee, *self.batches.batch(step), step=step)
            times.append(time.process_time() - start)
        del self._trainees[candidate]
        # A clock that is too coarse for a step must not give an infinite number of steps.
        return max(median(times[1:]), 1e-6)

    def _look(self, turn: CandidateTurn) -> dict[str, Any]:
        """Compare a candidate on the validation part."""
        standing, start = self.standings[turn.candidate], time.process_time()
        found = self._trainee(turn.candidate).validate()
        standing.seconds += time.process_time() - start
        standing.round, standing.validation_error, standing.validation_loss = turn.round, found.error, found.loss
        # Without its seconds: metrics are the same whenever they are measured.
        return {
            "round": turn.round,
            "candidate": turn.candidate,
            "source": self.candidates[turn.candidate].source,
            "steps": standing.steps,
            "validation_error": found.error,
            "validation_loss": found.loss,
        }

    def _halve(self) -> None:
        """End a round: the worse half stops."""
        scores = [
            (one, float(self.standings[one].validation_error or 0.0), float(self.standings[one].validation_loss or 0.0))
            for one in self.left
        ]
        self.left = going_on(scores)
        self._trainees = {one: trainee for one, trainee in self._trainees.items() if one in self.left}
        self._round, self._place = self._round + 1, 0

    # The state between two steps.

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next step depends on."""
        states = {one: trainee.state() for one, trainee in self._trainees.items()}
        tensors = {f"{one}.{name}": tensor for one, (own, _) in states.items() for name, tensor in own.items()}
        record = {
            "step": self.step,
            "round": self._round,
            "place": self._place,
            "taken": self._taken,
            "left": self.left,
            "costs": self.costs,
            "standings": [asdict(standing) for standing in self.standings],
            "trainees": {str(one): own for one, (_, own) in states.items()},
            "data": self.data.digest,
        }
        return tensors, record

    def load_state(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Restore the state that a checkpoint holds."""
        check_same_data(self.data.digest, record.get("data"))
        self.step, self._round = int(record["step"]), int(record["round"])
        self._place, self._taken = int(record["place"]), int(record["taken"])
        self.left, self.costs = [int(one) for one in record["left"]], [float(cost) for cost in record["costs"]]
        self.standings = [CandidateState(**standing) for standing in record["standings"]]
        self.candidates = self.candidates[: len(self.standings)]
        self._trainees = {}
        for name, own in record["trainees"].items():
            prefix = f"{name}."
            mine = {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}
            self._trainee(int(name)).load_state(mine, own)


def _one_step(trainee: Trainee, images: Tensor, labels: Tensor, *, step: int) -> None:
    """Take a step of one network; if it fails, nothing has changed."""
    trainee.begin(0)
    try:
        answer = trainee.answer(images.contiguous(memory_format=torch.channels_last), labels, step=step, part=0)
        trainee.follow(answer, share=1.0, step=step)
        trainee.check(step)
    except BaseException:
        trainee.undo()
        raise
    trainee.commit()
