"""Two gated perceptrons predict the progress of diabetes and teach one another.

Their architecture is a gate per feature and a mix of activations. 50 labeled patients train the weights, 50 more
validate the architecture, 200 without labels carry what the learners tell one another, 142 test the result.
Usage: regression.py [SEEDS [STEPS]]
"""

from functools import partial

import torch
from sklearn.datasets import load_diabetes
from three_ways import arguments, compare, learner_of, trained
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import Learner, Optimizers, Regression, SmallGroup


class Perceptron(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(10, hidden), nn.Linear(hidden, 1)
        self.gates, self.mix = nn.Parameter(torch.ones(10)), nn.Parameter(torch.zeros(2))

    def forward(self, features: Tensor) -> Tensor:
        h, m = self.first(features * torch.sigmoid(self.gates)), self.mix.softmax(dim=0)
        prediction: Tensor = self.last(m[0] * torch.tanh(h) + m[1] * F.softplus(h))
        return prediction.squeeze(1)


def make_optimizers(learner: Learner) -> Optimizers:
    v, w = (torch.optim.SGD(p.values(), lr=0.02, momentum=0.9) for p in (learner.v or {}, learner.w))
    return Optimizers(v, w, torch.optim.Adam(learner.architecture.values(), lr=0.02))


def measure(seed: int, lam: float, steps: int) -> list[tuple[float, float]]:
    generator = torch.Generator().manual_seed(seed)
    features, progress = (torch.tensor(part).float() for part in load_diabetes(return_X_y=True))
    order = torch.randperm(442, generator=generator)
    x, y = features[order] / features.std(dim=0), progress[order]
    y = (y - y[:50].mean()) / y[:50].std()
    learners = [learner_of(partial(Perceptron, n), ["gates", "mix"], 100 * seed + n) for n in (16, 32)]
    optimizers = [make_optimizers(learner) for learner in learners]
    group = SmallGroup(learners, task=Regression(), lam=lam, hypergradient="exact", optimizers=optimizers)
    for _ in range(steps):
        train, validation = (start + torch.randperm(50, generator=generator)[:25] for start in (0, 50))
        unlabeled = 100 + torch.randperm(200, generator=generator)[:50]
        group.step((x[train], y[train]), x[unlabeled], (x[validation], y[validation]))
    found = []
    with torch.no_grad():
        for model in map(trained, learners):
            errors = (model(x) - y).square()
            found.append((float(errors[50:100].mean()), float(errors[300:].mean())))
    return found


if __name__ == "__main__":
    compare(measure, "Mean squared error (variance of the training labels = 1)", *arguments())
