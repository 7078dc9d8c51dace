"""Quantization-aware fine-tuning: a trained network is trained on for a few epochs with its numbers rounded to int8.

Weights and inputs of convolutions and linear layers are rounded in every pass, and gradients pass through the rounding.
What comes of it is a network in float32 again, which loses less when it is quantized.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from smallgroup import kernels
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.job import TrainingJob
from smallgroup.phases.training.model import TrainedModel
from smallgroup.runtime.checks import check_counts
from smallgroup.spaces.network import DerivedNetwork

RATE = 0.05
"""The share of the training's learning rate that fine-tuning begins with; it falls to 0 along a cosine."""


@dataclass(frozen=True)
class FineTuning:
    """The length of a fine-tuning, and the training that it continues."""

    epochs: int
    config: TrainingConfig
    seed: int

    def __post_init__(self) -> None:
        check_counts(fine_tune=self.epochs)

    def of(self, network: DerivedNetwork, model: TrainedModel, data: TrainingData) -> DerivedNetwork:
        """Return a network that was trained on with its numbers rounded; the given one stays as it is.

        Optimizer, batches and augmentation are those of the training.
        """
        changes = {
            "epochs": self.epochs,
            "lr": RATE * self.config.lr,
            "min_lr": 0.0,
            "schedule": "cosine",
            "warmup_epochs": 0,
            "average": 0.0,
            "drop_path": 0.0,
            "precision": "float32",
            "track_test": False,
            "group": None,
        }
        data = replace(data, dataset=replace(data.dataset, mean=model.mean, std=model.std), unlabeled=None)

        def build(*_: object, **__: object) -> DerivedNetwork:
            return copy.deepcopy(network)

        with kernels.using("plain"):  # the other paths do not ask layers one by one
            own = self.config.model_copy(update=changes)
            with closing(TrainingJob(own, data, model.genotype, seed=self.seed, build=build)) as job:
                with _rounded(job.network):
                    while not job.finished:
                        job.advance()
                return job.network.eval()


@contextmanager
def _rounded(network: nn.Module) -> Iterator[None]:
    """Round weights and inputs of all convolutions and linear layers; afterwards they are as they were trained."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    hooks = []
    for layer in layers:
        parametrize.register_parametrization(layer, "weight", _Rounding(_weight_quantizer()), unsafe=True)
        hooks.append(layer.register_forward_pre_hook(_input_rounding(_input_quantizer())))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


class _Rounding(nn.Module):
    """Weights as they are in int8. The quantizer is no part of the network: nothing of it is trained or saved."""

    def __init__(self, quantizer: nn.Module) -> None:
        super().__init__()
        self._quantizer = (quantizer,)

    def forward(self, weight: Tensor) -> Tensor:
        rounded: Tensor = self._quantizer[0](weight)
        return rounded


def _input_rounding(quantizer: nn.Module) -> Any:  # noqa: ANN401 -- a hook
    def round_inputs(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (quantizer(inputs[0]), *inputs[1:])

    return round_inputs


def _weight_quantizer() -> nn.Module:
    """Quantize weights as onnxruntime does: symmetric, a scale per output channel, by the largest weight."""
    from torch.ao.quantization import FakeQuantize, MovingAveragePerChannelMinMaxObserver  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer: nn.Module = FakeQuantize(  # type: ignore[no-untyped-call]
            MovingAveragePerChannelMinMaxObserver,
            # Without -128 the range is symmetric, as onnxruntime has it for weights.
            quant_min=-127,
            quant_max=127,
            dtype=torch.qint8,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
            averaging_constant=1.0,
        )
    return quantizer


def _input_quantizer() -> nn.Module:
    """Quantize inputs by the range that they have had recently."""
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer: nn.Module = FakeQuantize(  # type: ignore[no-untyped-call]
            MovingAverageMinMaxObserver,
            # Inputs have a zero point, so the whole range is used.
            quant_min=-128,
            quant_max=127,
            dtype=torch.qint8,
            qscheme=torch.per_tensor_affine,
        )
    return quantizer
