"""Two small U-Nets find discs and squares in noise, pixel by pixel, and teach one another.

Their architecture is their width: a gate per channel. 16 labeled images train the weights, 16 more validate the
architecture, 200 without labels carry what the learners tell one another, 200 test the result.
Usage: segmentation.py [SEEDS [STEPS]]
"""

from functools import partial

import torch
from three_ways import adam_of, arguments, compare, learner_of, trained
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import DenseClassification, SmallGroup

SIZE = 16


def shapes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return images and the class of every pixel: background, disc or square."""
    place = torch.rand(count, 2, 2, 1, 1, generator=generator) * (SIZE - 6) + 3
    reach = torch.rand(count, 2, 1, 1, generator=generator) * 2 + 2
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    dy, dx = (rows - place[:, :, 0]).abs(), (columns - place[:, :, 1]).abs()
    disc = (dy[:, 0] ** 2 + dx[:, 0] ** 2).sqrt() < reach[:, 0]
    square = torch.maximum(dy[:, 1], dx[:, 1]) < reach[:, 1]
    labels = torch.where(square, 2, disc.long())
    noise = torch.randn(count, 1, SIZE, SIZE, generator=generator)
    return (labels > 0).float().unsqueeze(1) + 0.4 * noise, labels


class UNet(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(1, channels, 3, padding=1)
        self.below = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.above = nn.Conv2d(3 * channels, channels, 3, padding=1)
        self.head = nn.Conv2d(channels, 3, 1)
        self.gates, self.gates_below = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.ones(2 * channels))

    def forward(self, images: Tensor) -> Tensor:
        gates, below = (torch.sigmoid(each).view(1, -1, 1, 1) for each in (self.gates, self.gates_below))
        x = F.softplus(self.enter(images)) * gates
        y = F.softplus(self.below(F.avg_pool2d(x, 2))) * below
        y = torch.cat([x, F.interpolate(y, scale_factor=2.0)], dim=1)
        maps: Tensor = self.head(F.softplus(self.above(y)))
        return maps


def measure(seed: int, lam: float, steps: int) -> list[tuple[float, float]]:
    generator = torch.Generator().manual_seed(seed)
    (x, y), (x_v, y_v), (u, _), (x_t, y_t) = (shapes(n, generator) for n in (16, 16, 200, 200))
    learners = [learner_of(partial(UNet, n), ["gates", "gates_below"], 100 * seed + n) for n in (4, 6)]
    optimizers = [adam_of(learner) for learner in learners]
    group = SmallGroup(learners, task=DenseClassification(), lam=lam, optimizers=optimizers)
    for _ in range(steps):
        group.step((x, y), u[torch.randperm(200, generator=generator)[:16]], (x_v, y_v))
    found = []
    with torch.no_grad():
        for model in map(trained, learners):
            validated, tested = model(x_v), model(x_t)
            wrong = 100 * float((tested.argmax(dim=1) != y_t).float().mean())
            found.append((float(F.cross_entropy(validated, y_v)), wrong))
    return found


if __name__ == "__main__":
    compare(measure, "Wrong pixels in percent", *(arguments() or [5, 150]))
