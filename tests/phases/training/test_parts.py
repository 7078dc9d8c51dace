"""Batches that are divided into parts: what each counts for, and what each drops."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from smallgroup.spaces.outputs import Outputs
from tests.phases.training.test_training_job import CELL, job


@pytest.mark.parametrize(("images", "parts"), [(7, [4, 3]), (16, [6, 5, 5]), (5, [3, 2])])
def test_a_part_counts_for_its_images(images: int, parts: list[int]) -> None:
    """The gradient is the mean over images, and so is the loss that is shown; five images make two parts at most."""
    accumulate = 3 if images == 5 else len(parts)
    options: dict[str, Any] = {"genotype": CELL, "batch_size": images, "steps_per_epoch": 1, "weight_decay": 0.0}
    training, plain = job(accumulate=accumulate, clip=None, **options), job(**options)
    x, y = plain.batches.batch(0)
    plain.network.train()
    total = torch.zeros(())
    for part, labels in zip(torch.split(x, parts), torch.split(y, parts), strict=True):
        total = total + functional.cross_entropy(Outputs.of(plain.network(part)).logits, labels, reduction="sum")
    total = total / images
    expected = torch.autograd.grad(total, list(plain.network.parameters()))
    rows = training.advance()
    assert rows is not None
    assert rows[0]["loss"] == pytest.approx(float(total.detach()), rel=1e-5)
    tensors = training.state()[0]
    for (name, _), gradient in zip(plain.network.named_parameters(), expected, strict=True):
        torch.testing.assert_close(tensors[f"momentum.{name}"], gradient, rtol=1e-4, atol=1e-6)


def test_every_part_of_every_step_drops_paths_of_its_own() -> None:
    training, again = job(accumulate=3), job(accumulate=3)
    keys: dict[int, list[tuple[Any, ...]]] = {0: [], 1: []}
    for number, each in enumerate((training, again)):
        each.network.register_forward_pre_hook(lambda _, given, number=number: keys[number].append(given[1]))
        while not each.finished:
            each.advance()
    assert len(keys[0]) == 3 * training.steps
    assert len(set(keys[0])) == len(keys[0])
    assert keys[0] == keys[1]


def test_a_divided_step_with_drop_path_is_that_of_plain_torch() -> None:
    options: dict[str, Any] = {"epochs": 2, "steps_per_epoch": 1, "momentum": 0.0, "weight_decay": 0.0, "lr": 0.1}
    training, plain = job(accumulate=2, clip=None, **options), job(**options)
    training.advance()
    plain.load_state(*training.state())
    training.advance()
    plain.network.train()
    plain.network.drop_path = 0.15
    x, y = plain.batches.batch(1)
    for part in range(2):
        here = slice(8 * part, 8 * part + 8)
        outputs = Outputs.of(plain.network(x[here], (0, "evaluation", 1, part)))
        for logits, weight in zip(outputs, (0.5, 0.5 * 0.4), strict=True):
            assert logits is not None
            (weight * functional.cross_entropy(logits, y[here])).backward(retain_graph=True)  # type: ignore[no-untyped-call]
    for mine, theirs in zip(training.network.parameters(), plain.network.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(mine, theirs - 0.05 * theirs.grad, rtol=1e-4, atol=1e-6)
