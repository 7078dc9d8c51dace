"""Learners alone, independent, and as a group: the comparison that the examples of other tasks print."""

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from smallgroup.group import Learner, ModuleApply, Optimizers

Measure = Callable[[int, float, int], list[tuple[float, float]]]
"""(seed, lambda, steps) to the validation loss and the test error of every learner."""


def learner_of(build: Callable[[], nn.Module], gates: Sequence[str], seed: int, **options: Any) -> Learner:  # noqa: ANN401
    """Return a learner of a module built twice, for V and for W; parameters that `gates` names are its architecture."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, other = build(), build()
    w, v = dict(module.named_parameters()), dict(other.named_parameters())
    architecture = {name: w.pop(name) for name in list(w) if name.rpartition(".")[2] in gates}
    return Learner(ModuleApply(module, seed=seed, **options), architecture, {name: v[name] for name in w}, w)


def trained(learner: Learner) -> Callable[..., Tensor]:
    """Return the network of W and A in eval mode: in the passes of a group dropout is on."""
    assert isinstance(learner.apply, ModuleApply)
    model, output = learner.apply.trained(learner.w, learner.architecture), learner.apply.output
    return lambda *inputs, **named: (output or (lambda found: found))(model(*inputs, **named))


def adam_of(learner: Learner) -> Optimizers:
    """Return Adam for weights and architecture."""
    tensors = (learner.v or {}, learner.w, learner.architecture)
    v, w, architecture = (torch.optim.Adam(each.values(), lr=0.01) for each in tensors)
    return Optimizers(v, w, architecture)


def best(found: list[tuple[float, float]]) -> float:
    """Return the test error of the learner with the lowest validation loss."""
    return min(found)[1]


def mean(found: list[tuple[float, float]]) -> float:
    """Return the mean test error."""
    return statistics.mean(error for _, error in found)


def compare(measure: Measure, unit: str, seeds: int = 5, steps: int = 300) -> None:
    """Print the test errors of all seeds and their spread. Both ways take the same batches from the same start."""
    torch.set_num_threads(1)  # the networks are so small that threads would only wait for one another
    rows: dict[str, list[float]] = {}
    for seed in range(seeds):
        apart, together = measure(seed, 0.0, steps), measure(seed, 1.0, steps)
        print(f"seed {seed}: alone {mean(apart):.3f}, independent {best(apart):.3f}, group {best(together):.3f}")
        rows.setdefault("alone: one learner by itself, mean of all", []).append(mean(apart))
        rows.setdefault("independent: all, the best on validation kept", []).append(best(apart))
        rows.setdefault("group: the same, teaching one another", []).append(best(together))
        rows.setdefault("group, mean of all", []).append(mean(together))
        rows.setdefault("group minus independent, seed by seed", []).append(best(together) - best(apart))
    print(f"\n{unit} over {seeds} seeds of {steps} steps: mean +- standard deviation, range")
    for name, values in rows.items():
        spread = f"{statistics.stdev(values):6.3f}" if seeds > 2 else "     -"
        print(f"{name:<48} {statistics.mean(values):7.3f} +- {spread}   {min(values):.3f} to {max(values):.3f}")


def arguments() -> list[int]:
    """Return the numbers of the command line: [SEEDS [STEPS]]."""
    return [int(argument) for argument in sys.argv[1:]]
