"""The part of a config that is about networks that are trained as a group; it is read without torch."""

from typing import Literal

from pydantic import Field, model_validator

from smallgroup.data.config import AugmentationConfig
from smallgroup.group.teaching import Teaching
from smallgroup.runtime.bounds import MOST
from smallgroup.runtime.section import Section


class GroupConfig(Section):
    """Networks that are trained together and teach one another on unlabeled images."""

    learners: int = Field(default=2, ge=1, le=MOST["learners"])
    """Number of networks that are trained together."""
    lam: float = Field(default=1.0, ge=0, alias="lambda")
    """Weight of the labels of each peer in the loss of W; 0: every network learns from human labels alone."""
    lambda_ramp: float = Field(default=0.3, ge=0, le=1)
    """Share of the steps in which lambda rises in even steps to its value."""
    temperature: float = Field(default=1.0, gt=0, le=1000)
    """Divides the log-probabilities of soft labels: below 1 they are sharper than the prediction, above 1 softer."""
    confidence: float = Field(default=0.0, ge=0, lt=1)
    """Soft labels whose highest probability (at temperature 1) is lower are not learned from; 0: all are."""
    labels_from: Literal["v", "w"] = "v"
    """Who makes the labels: V, which learns from human labels alone (the paper), or W itself."""
    targets: Literal["peers", "own", "uniform"] = "peers"
    """Whose labels a network learns from; `own` (self-taught) and `uniform` are controls."""
    learned_on: Literal["unlabeled", "labeled"] = "unlabeled"
    """On which images networks learn from peers: two views of unlabeled ones, or the labeled batch as it is. The
    latter with labels from W is deep mutual learning."""
    batch_size: int | None = Field(default=None, ge=2, le=MOST["batch_size"])
    """Unlabeled images per step; null: as many as labeled ones."""
    weak: AugmentationConfig = AugmentationConfig()
    """Departures from the augmentation that labels are made of: that of the training without colors and cutout."""
    strong: AugmentationConfig = AugmentationConfig()
    """Departures from the augmentation that is learned from: that of the training, colors, and cutout of half the
    side."""

    @model_validator(mode="after")
    def _labels_are_used(self) -> "GroupConfig":
        if self.targets == "uniform" and self.labels_from != "v":
            raise ValueError(f"targets uniform uses no labels, so labels_from must be v, but it is {self.labels_from}")
        return self

    @model_validator(mode="after")
    def _unlabeled_images_are_used(self) -> "GroupConfig":
        if self.learned_on == "labeled":
            for name in ("batch_size", "weak", "strong"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"learned_on labeled uses no unlabeled images, so {name} must keep its default")
        return self

    @property
    def teaching(self) -> Teaching:
        """Return who learns from whom, as the group library takes it."""
        return Teaching(self.learners, self.lam, self.labels_from, self.targets)

    @property
    def needs_unlabeled(self) -> bool:
        """Return whether networks learn from unlabeled images."""
        return self.teaching.active and self.learned_on == "unlabeled"

    def lam_at(self, step: int, steps: int) -> float:
        """Return lambda in a step: it rises to its value, and is never 0 on the way."""
        rising = round(self.lambda_ramp * steps)
        return self.lam * (step + 1) / rising if step + 1 < rising else self.lam

    def passes(self, batch_size: int) -> float:
        """Return what a step costs all networks, in forward passes of an image; a backward pass counts as two."""
        teaching, other = self.teaching, self.batch_size or batch_size
        of_one = 3 * batch_size * (2 if teaching.trains_v else 1)
        if teaching.active:
            of_one += other * (3 if teaching.targets == "uniform" else 4)
        return self.learners * of_one
