"""Three differently built classifiers of handwritten digits teach one another.

Their "architecture" is a gate per pixel and a mix of activations. 100 labeled images train the weights, 100 more
validate the architecture, 1,000 unlabeled ones carry what the learners tell one another, 597 test the result.
Usage: three_classifiers.py [SEEDS [STEPS]]
"""

import statistics
import sys
from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import Learner, ModuleApply, Optimizers, SmallGroup

# A body works on all pixels at once, on patches, or row by row; with it stands how many features it yields.
BODIES: list[tuple[Callable[[], nn.Module], int]] = [
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 64)), 64),
    (lambda: nn.Conv2d(1, 8, 3, stride=2), 72),
    (lambda: nn.Linear(8, 12), 96),
]


class Classifier(nn.Module):
    def __init__(self, kind: int) -> None:
        super().__init__()
        make, features = BODIES[kind]
        self.body, self.head = make(), nn.Linear(features, 10)
        self.gates, self.mix = nn.Parameter(torch.ones(8, 8)), nn.Parameter(torch.zeros(3))

    def forward(self, images: Tensor) -> Tensor:
        h, m = self.body(images * torch.sigmoid(self.gates)).flatten(1), self.mix.softmax(dim=0)
        logits: Tensor = self.head(m[0] * torch.tanh(h) + m[1] * F.relu(h) + m[2] * F.softplus(h))
        return logits


def make_learner(kind: int, seed: int) -> Learner:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3 * seed + kind)
        module, other = Classifier(kind), Classifier(kind)
    w, v = dict(module.named_parameters()), dict(other.named_parameters())
    architecture = {name: w.pop(name) for name in ("gates", "mix")}
    return Learner(ModuleApply(module), architecture, {name: v[name] for name in w}, w)


def make_optimizers(learner: Learner) -> Optimizers:
    v, w = (torch.optim.SGD(p.values(), lr=0.1, momentum=0.9) for p in (learner.v or {}, learner.w))
    return Optimizers(v, w, torch.optim.Adam(learner.architecture.values(), lr=0.02, betas=(0.5, 0.999)))


def errors(seed: int, lam: float, steps: int) -> tuple[float, float]:
    """Test errors in percent: the mean of the three learners, and that of the one with the lowest validation loss."""
    generator = torch.Generator().manual_seed(seed)
    images, digits = load_digits(return_X_y=True)
    order = torch.randperm(1797, generator=generator)
    x, y = torch.tensor(images / 16).float().view(-1, 1, 8, 8)[order], torch.tensor(digits)[order]
    learners = [make_learner(kind, seed) for kind in range(3)]
    group = SmallGroup(learners, lam=lam, optimizers=[make_optimizers(learner) for learner in learners])
    for _ in range(steps):
        train, validation = (start + torch.randperm(100, generator=generator)[:50] for start in (0, 100))
        unlabeled = 200 + torch.randperm(1000, generator=generator)[:100]
        group.step((x[train], y[train]), x[unlabeled], (x[validation], y[validation]))
    with torch.no_grad():
        tables = [learner.logits(learner.w, learner.architecture, x, "val") for learner in learners]
    losses = [float(F.cross_entropy(table[100:200], y[100:200])) for table in tables]
    wrong = [100 * float((table[1200:].argmax(dim=1) != y[1200:]).float().mean()) for table in tables]
    return statistics.mean(wrong), wrong[losses.index(min(losses))]


def main(seeds: int = 5, steps: int = 200) -> None:
    torch.set_num_threads(1)  # the networks are so small that threads would only wait for one another
    rows: dict[str, list[float]] = {}
    for seed in range(seeds):
        (alone, independent), (taught, group) = errors(seed, 0.0, steps), errors(seed, 1.0, steps)
        print(f"seed {seed}: alone {alone:.2f}, independent {independent:.2f}, group {group:.2f}", flush=True)
        rows.setdefault("alone: one learner by itself, mean of the three", []).append(alone)
        rows.setdefault("independent: three, the best on validation kept", []).append(independent)
        rows.setdefault("group: the same, teaching one another", []).append(group)
        rows.setdefault("group, mean of the three", []).append(taught)
    print(f"\nTest error in percent over {seeds} seeds of {steps} steps: mean +- standard deviation, range")
    for name, values in rows.items():
        spread = f"{statistics.stdev(values):4.2f}" if seeds > 2 else "   -"
        print(f"{name:<50} {statistics.mean(values):5.2f} +- {spread}   {min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
