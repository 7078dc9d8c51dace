"""Discrete searches that look genotypes up: what each proposes, and learns from the value of.

A search is a generator: it gives a genotype, is sent its value (accuracy in percent), and gives the next one. How many
it may look up is for the caller to say. None of them computes a gradient of a network.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from smallgroup.spaces import Genotype, SpaceDefinition

Proposals = Generator[Genotype, float, None]
"""Genotypes out, values in; one that has seen all genotypes ends."""
Options = tuple[int, ...]
"""One option of each decision of a space."""

POPULATION, SAMPLE = 10, 3
"""Of regularized evolution: cells that are alive, and how many of them compete to have a child."""
RATE, MOMENTUM = 0.01, 0.9
"""Of REINFORCE: the learning rate of Adam, and the momentum of the moving average that rewards are compared with."""


def random_search(definition: SpaceDefinition, draw: torch.Generator) -> Proposals:
    """Propose genotypes that are drawn at random."""
    while True:
        yield definition.sampled(draw)


def evolution(definition: SpaceDefinition, draw: torch.Generator) -> Proposals:
    """Propose by regularized evolution: the best of a few living genotypes has a mutated child; the oldest dies."""
    alive: deque[tuple[float, Genotype]] = deque(maxlen=POPULATION)
    while True:
        if len(alive) < POPULATION:
            child = definition.sampled(draw)
        else:
            chosen = torch.randperm(POPULATION, generator=draw)[:SAMPLE].tolist()
            child = definition.mutated(max((alive[i] for i in chosen), key=lambda pair: pair[0])[1], draw)
        alive.append(((yield child), child))


def local_search(definition: SpaceDefinition, draw: torch.Generator) -> Proposals:
    """Look at neighbors in random order and move to the first that is better, until none is.

    From such a local optimum it begins again at a random genotype. Neighbors differ in one decision. What was looked up
    once is remembered.
    """
    sizes = definition.decisions()
    known: dict[Options, float] = {}
    while len(known) < prod(sizes):
        here: Options | None = tuple(int(torch.randint(size, (), generator=draw)) for size in sizes)
        while here is not None:
            if here not in known:
                known[here] = yield definition.decided(here)
            better, around = None, list(neighbors(here, sizes))
            for place in torch.randperm(len(around), generator=draw).tolist():
                other = around[place]
                if other not in known:
                    known[other] = yield definition.decided(other)
                if known[other] > known[here]:
                    better = other
                    break
            here = better


def neighbors(options: Options, sizes: Sequence[int]) -> Iterator[Options]:
    """Yield every other option of every decision, one at a time."""
    for place, size in enumerate(sizes):
        for other in range(size):
            if other != options[place]:
                yield (*options[:place], other, *options[place + 1 :])


def reinforce(definition: SpaceDefinition, draw: torch.Generator) -> Proposals:
    """Propose by REINFORCE: a softmax for each decision follows the policy gradient of the accuracy, as a share of one.

    A reward counts as far as it exceeds the moving average of all before it and itself.
    """
    logits = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in definition.decisions()]
    optimizer = torch.optim.Adam(logits, lr=RATE)
    average: float | None = None
    while True:
        shares = [own.detach().softmax(dim=0) for own in logits]
        options = tuple(int(share.multinomial(1, generator=draw)) for share in shares)
        reward = (yield definition.decided(options)) / 100
        average = reward if average is None else MOMENTUM * average + (1 - MOMENTUM) * reward
        for own, gradient in zip(logits, policy_gradients(logits, options, reward - average), strict=True):
            own.grad = gradient
        optimizer.step()


def policy_gradients(logits: Sequence[Tensor], options: Options, advantage: float) -> list[Tensor]:
    """Return the gradient of -advantage log p(options): advantage (softmax - onehot) for each decision."""
    found = []
    for own, option in zip(logits, options, strict=True):
        gradient = own.detach().softmax(dim=0)
        gradient[option] -= 1
        found.append(advantage * gradient)
    return found


SEARCHES = {
    "random": (random_search, "random-search"),
    "evolution": (evolution, "evolution"),
    "local": (local_search, "local-search"),
    "reinforce": (reinforce, "reinforce"),
}
"""By the name that studies have for them: the search, and the purpose of its random numbers."""
