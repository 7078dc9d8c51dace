"""The errors of the group that are not wrong arguments."""


class NonFiniteError(FloatingPointError):
    """A loss or a gradient is not finite; nothing has been changed.

    Attributes say where: `learner` (0-based), `stage` (1, 2 or 3), `quantity` and `step`.
    """

    def __init__(self, learner: int, stage: int, quantity: str, step: int) -> None:
        super().__init__(
            f"{quantity} of learner {learner} is not finite in stage {stage} of step {step}; "
            "nothing was changed by this step"
        )
        self.learner = learner
        self.stage = stage
        self.quantity = quantity
        self.step = step


class PeerError(RuntimeError):
    """Another process of the group has failed; nothing has been changed here. `rank` is its rank."""

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(f"rank {rank} of the group failed, so nothing was changed by this step: {text}")
        self.rank = rank
