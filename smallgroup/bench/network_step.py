"""A step of the training of a network: what it is. It is computed in `network_calls`, which loads torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smallgroup.config import resolve
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.runtime.checks import check_counts

if TYPE_CHECKING:
    from smallgroup.bench.timing import Call

_HEAD = 8
"""The smallest images that leave room for an auxiliary head."""


@dataclass(frozen=True, kw_only=True)
class NetworkStep:
    """Forward, backward, clipping and SGD of the network around a cell, as `smallgroup train` does it half-way through.

    With auxiliary head and drop path as published, on random images.
    """

    genotype: str = "DARTS_V2"
    channels: int = 36
    cells: int = 20
    batch: int = 96
    size: int = 32

    def __post_init__(self) -> None:
        check_counts(channels=self.channels, cells=self.cells, batch=self.batch)
        check_counts(size=self.size, at_least=4)

    @property
    def name(self) -> str:
        """Return all sizes in one line, the name of the row."""
        return (
            f"network of {self.genotype}, C={self.channels}, {self.cells} cells, batch {self.batch}, "
            f"{self.size}x{self.size}, training"
        )

    @property
    def sizes(self) -> dict[str, Any]:
        """Return all sizes: each of them changes the time."""
        return dict(vars(self))

    @property
    def config(self) -> TrainingConfig:
        """The published settings at this size."""
        auxiliary = "two-norms" if self.size >= _HEAD else "none"
        network = {"channels": self.channels, "cells": self.cells, "auxiliary": auxiliary}
        return resolve({"recipe": "paper", "training": {"network": network}}).training

    def plain(self) -> "Call":
        """Return a training step written as in a textbook, in NCHW."""
        from smallgroup.bench.network_calls import plain_step  # noqa: PLC0415 -- it loads torch

        return plain_step(self)

    def fast(self) -> "Call":
        """Return a step of the package's own training."""
        from smallgroup.bench.network_calls import fast_step  # noqa: PLC0415 -- it loads torch

        return fast_step(self)
