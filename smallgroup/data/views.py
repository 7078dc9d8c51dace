"""Unlabeled images for a training: two augmentations of the same images, a weak one and a strong one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from smallgroup.data.augment import Augmentation
from smallgroup.data.config import AugmentationConfig
from smallgroup.data.images import Images
from smallgroup.data.loader import Reader, Stream

PURPOSE = "evaluation unlabeled"
"""Whose order and random numbers these are."""


class TwoViews(TypedDict):
    """A batch of unlabeled images, augmented twice."""

    weak: Tensor
    """The view that labels are made of."""
    strong: Tensor
    """What is learned with those labels."""


@dataclass(frozen=True)
class UnlabeledImages:
    """Images without labels, and how each view of them is augmented."""

    images: Images
    indices: Tensor
    weak: Augmentation
    strong: Augmentation

    def stream(
        self,
        view: str,
        batch_size: int,
        seed: int,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> Stream[Tensor]:
        """Return the batches of a view. Both views have the same images in the same order, and draws of their own."""
        return Stream(
            self.images,
            self.indices,
            batch_size=batch_size,
            seed=seed,
            purpose=PURPOSE,
            augmentation=self.weak if view == "weak" else self.strong,
            mean=mean,
            std=std,
            labeled=False,
            workers=workers,
            device=device,
            view=view,
        )


def weak_view(own: Augmentation, given: AugmentationConfig) -> Augmentation:
    """Return the augmentation of the training without colors and cutout, with departures from that."""
    return given.over(own.model_copy(update={"color_jitter": False, "cutout": 0}))


def strong_view(own: Augmentation, given: AugmentationConfig, size: int) -> Augmentation:
    """Return the augmentation of the training with colors, and cutout of half the side at least, with departures."""
    return given.over(own.model_copy(update={"color_jitter": True, "cutout": max(own.cutout, size // 2)}))


class ViewsReader:
    """The two views of the unlabeled batch of a step."""

    def __init__(self, weak: Stream[Tensor], strong: Stream[Tensor]) -> None:
        self._weak, self._strong = Reader(weak), Reader(strong)

    def batch(self, step: int) -> TwoViews:
        """Return both views of the same images."""
        return {"weak": _laid_out(self._weak.batch(step)), "strong": _laid_out(self._strong.batch(step))}

    def close(self) -> None:
        """End the processes that read images."""
        self._weak.close()
        self._strong.close()


def _laid_out(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)
