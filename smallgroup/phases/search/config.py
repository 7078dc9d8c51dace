"""The part of a config that is about the course of a search.

Keys without a default here have theirs in the recipe `quick`, and every recipe names them.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.section import Section

Share = Annotated[float, Field(ge=0, lt=1)]


AnswerRule = Literal["retained", "derived-error", "consensus", "play-off"]
ANSWERS: dict[AnswerRule, str] = {
    "retained": "the cell of the learner with the lowest loss on all validation images",
    "derived-error": "the derived cell with the lowest error on all validation images, with shared weights",
    "consensus": "the cell derived from the mean of the learners' scores",
    "play-off": "the best of several cells, each trained briefly from scratch",
}
"""How the group answers, in words: whatever shows a result names the rule."""


class BatchSizes(Section):
    """Images per step from each of the three streams."""

    train: int = Field(ge=2, le=MOST["batch_size"])
    """Labeled images that train V and W."""
    unlabeled: int = Field(ge=2, le=MOST["batch_size"])
    """Images that learners label for one another."""
    validation: int = Field(ge=2, le=MOST["batch_size"])
    """Validation images, whose loss trains the architecture."""


class WeightsConfig(Section):
    """Optimizer of V and W: SGD with a learning rate that falls along a cosine from epoch to epoch."""

    lr: float = Field(gt=0)
    """Learning rate in the first epoch; that of W counts from the epoch in which W begins."""
    min_lr: float = Field(ge=0)
    """Learning rate that the cosine falls to."""
    warmup_epochs: int = Field(default=0, ge=0, le=MOST["epochs"])
    """Warm-up epochs in which the learning rate rises linearly to lr, for large batches."""
    momentum: float = Field(ge=0, lt=1)
    """Momentum of SGD."""
    nesterov: bool = False
    """Whether the momentum is Nesterov's, as in the code of GDAS."""
    weight_decay: float = Field(ge=0)
    """Weight decay of V and W."""
    clip: float | None = Field(gt=0)
    """Largest L2 norm of a gradient; null: any."""

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> "WeightsConfig":
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum > 0, but got momentum=0")
        return self


class ArchitectureConfig(Section):
    """Optimizer of A: Adam; null means the method's own value."""

    lr: float | None = Field(gt=0)
    """Learning rate; null: by `travel`, or else the method's own."""
    travel: float | None = Field(default=None, gt=0)
    """How far Adam can move a logit: the learning rate is travel / steps, at most max_lr; in the paper it is 7.5."""
    max_lr: float = Field(default=3e-3, gt=0)
    """The largest learning rate that `travel` leads to."""
    betas: tuple[Share, Share] | None = None
    """Betas of Adam; null: the method's own."""
    weight_decay: float | None = Field(default=None, ge=0)
    """Weight decay of A; null: the method's own."""
    clip: float | None = Field(default=None, gt=0)
    """Largest L2 norm of a gradient; null: the method's own, as a rule any."""

    @model_validator(mode="after")
    def _one_rate(self) -> "ArchitectureConfig":
        if self.lr is not None and self.travel is not None:
            raise ValueError(f"one of lr and travel must be null, but got lr={self.lr:g} and travel={self.travel:g}")
        return self


def in_words(hypergradient: str, *, taught: bool) -> str:
    """Return what the architectures follow: every table of results says it, because names of methods do not."""
    if hypergradient == "first-order":
        return "first order, of the validation loss at given weights" + (": no term through a peer" if taught else "")
    how = "exact derivatives" if hypergradient == "exact" else "finite differences"
    return f"{how} through the step of W" + (", and through V and W of the peers as in the equations" if taught else "")


class SearchConfig(Section):
    """Length, batches, gradient, order and optimizers of a search."""

    model_config = ConfigDict(populate_by_name=True)

    epochs: int = Field(ge=1, le=MOST["epochs"])
    """Number of epochs; after each, learning rates fall and metrics and a checkpoint are written."""
    steps_per_epoch: int | None = Field(ge=1, le=MOST["steps_per_epoch"])
    """Steps of an epoch; null: one pass over the training images."""
    batch_size: BatchSizes
    """Images per step from each of the three streams."""
    image_size: int | None = Field(ge=1, le=MOST["image_size"])
    """Height and width of the images in the search alone: larger ones are shrunk to it; null: those of the data."""
    lam: float = Field(ge=0, alias="lambda")
    """Weight of the peers' labels in the loss of W; 0 makes the learners independent."""
    lambda_ramp: float = Field(default=0.0, ge=0, le=1)
    """Share of the steps in which lambda rises in even steps to its value, from the first step of W on."""
    label_temperature: float = Field(default=1.0, gt=0, le=1000)
    """Divides the log-probabilities of soft labels: below 1 they are sharper than what V predicts, above 1 softer."""
    label_confidence: float = Field(default=0.0, ge=0, lt=1)
    """Soft labels with a lower highest probability (at temperature 1) are ignored; 0: none are."""
    hypergradient: Literal["first-order", "finite-difference", "exact"]
    """How the architecture gradient is computed through both weight updates; first-order ignores them."""
    radius: float = Field(gt=0)
    """Length of the finite-difference probes."""
    label_path: bool
    """Whether labels are also differentiated in the architecture that makes them; the paper does not."""
    order: Literal["v-w-a", "a-v-w"]
    """The paper's order of stages, or architectures first, as in DARTS; second-order a-v-w is for learners alone."""
    clip_lookahead: bool = True
    """Whether weights.clip also clips the step of W that second-order gradients look ahead to; in DARTS it does not."""
    v_warmup: float = Field(ge=0, lt=1)
    """Share of the steps in which V alone is trained, of each stage: labels of an untrained V are mere smoothing."""
    architecture_warmup: float | None = Field(ge=0, lt=1)
    """Share of the steps before the architecture moves, those of V alone among them; null: each method's own."""
    weights: WeightsConfig
    """Optimizer of V and W."""
    architecture: ArchitectureConfig
    """Optimizer of the architectures A."""
    labels_from: Literal["v", "w", "w-joint"] = "v"
    """Which weights make the labels; `w` and `w-joint` are the ablation without first stage."""
    labelers: Path | None = None
    """Folder of a finished search whose learners make the labels instead, frozen: the ablation of separate stages."""
    targets: Literal["peers", "own", "uniform"] = "peers"
    """Whose labels W learns from; `own` and `uniform` are controls without teaching between learners."""
    human_labels: bool = True
    """Whether W also learns from human labels; false is the ablation in which it learns from peers alone."""
    cost: Literal["multiply_adds", "parameters", "flash_kb", "ram_kb"] = "multiply_adds"
    """What the penalty of methods with `cost_weight` counts."""
    answer: AnswerRule
    """Which cell is the answer: that of the learner with the lowest validation loss (retained), that with the lowest
    validation error once derived (derived-error), the one derived from the mean of all scores (consensus), or the
    best of several that are trained briefly (play-off)."""

    @model_validator(mode="after")
    def _one_source(self) -> "SearchConfig":
        if self.labelers is not None and (self.labels_from != "v" or self.targets == "uniform"):
            raise ValueError(
                "labelers make the labels, so that labels_from must be v and targets peers or own, but they are "
                f"{self.labels_from} and {self.targets}"
            )
        return self

    @model_validator(mode="after")
    def _lambda_counts(self) -> "SearchConfig":
        if self.lambda_ramp and not self.human_labels:
            raise ValueError(
                f"without human_labels there is no lambda, so lambda_ramp must be 0, but it is {self.lambda_ramp:g}"
            )
        return self

    @model_validator(mode="after")
    def _look_ahead_of_its_own(self) -> "SearchConfig":
        if not self.clip_lookahead and self.hypergradient != "first-order" and self.order == "v-w-a":
            raise ValueError(
                "clip_lookahead can be false only in order a-v-w, but order is v-w-a, in which the look-ahead is the "
                "step that W takes"
            )
        return self
