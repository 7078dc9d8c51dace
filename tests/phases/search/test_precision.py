"""A search in bfloat16: what is computed in which numbers, and how a run in it is recorded and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import smallgroup
from smallgroup.methods import METHODS, Relaxed
from smallgroup.runtime import precision, stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.precision_names import Precision
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space

IMAGES = ImageSpec(3, 1, 8)
SPACES: list[Space] = [
    NasBench201Space(channels=8, cells_per_stage=1, images=IMAGES),
    DartsSpace(channels=4, cells=3, images=IMAGES),
]


def passed(space: Space, wanted: Precision) -> tuple[dict[str, set[torch.dtype]], Tensor, Tensor]:
    """The types that layers compute in, the logits, and the gradient of the architecture."""
    relaxed = Relaxed(space, METHODS["darts"](), seed=1)
    seen: dict[str, set[torch.dtype]] = {}

    def note(module: torch.nn.Module, _: Any, output: Tensor) -> None:
        seen.setdefault(type(module).__name__, set()).add(output.dtype)

    for module in relaxed.supernet.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(note)
    a = {name: tensor.requires_grad_() for name, tensor in relaxed.initial_architecture().items()}
    x = torch.randn(16, 1, 8, 8, generator=stream("precision"))
    with precision.using(wanted, torch.device("cpu")):
        logits = relaxed(relaxed.initial_weights("w"), a, x)
    gradient = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, torch.arange(16) % 3), list(a.values()))
    return seen, logits.detach(), torch.cat([one.flatten() for one in gradient])


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_layers_compute_in_it_and_logits_and_the_gradient_are_float32(space: Space) -> None:
    seen, logits, gradient = passed(space, "bfloat16")
    assert set.union(*seen.values()) == {torch.bfloat16}
    assert logits.dtype == gradient.dtype == torch.float32
    _, exact, expected = passed(space, "float32")
    assert 0 < float((logits - exact).norm() / exact.norm()) < 0.2
    assert 0 < float((gradient - expected).norm() / expected.norm()) < 0.5
    # Rounded once more, most entries would have no more than the 8 digits of bfloat16.
    assert float((gradient == gradient.bfloat16().float()).float().mean()) < 0.1


KEYS: dict[str, Any] = {
    "learners": 1,
    "data": {"labeled_fraction": 0.05},
    "space": {"name": "nas-bench-201", "channels": 2, "cells_per_stage": 1},
    "search": {
        "hypergradient": "first-order",
        "epochs": 1,
        "steps_per_epoch": 1,
        "batch_size": {"train": 8, "unlabeled": 8, "validation": 8},
        "answer": "retained",
        "image_size": None,
    },
    "run": {"precision": "bfloat16"},
}


@pytest.mark.slow
def test_a_run_records_how_it_rounds_and_is_not_resumed_in_another_precision(tmp_path: Path) -> None:
    smallgroup.search(KEYS, out=tmp_path, progress=False)
    assert "precision: bfloat16" in (tmp_path / "config.yaml").read_text()
    texts = [path.read_text() for path in (tmp_path / "checkpoints").rglob("*.json")]
    assert any("3x3 convolution (bfloat16)" in text for text in texts)
    with pytest.raises(ValueError, match="precision"):
        smallgroup.search({**KEYS, "run": {}}, out=tmp_path, resume=True, progress=False)
