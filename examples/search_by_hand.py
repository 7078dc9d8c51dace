r"""The parts put together by hand: data, a space and a method make learners, learners make a group, the group searches.

    python examples/search_by_hand.py                                                    # digits, half a minute
    python examples/search_by_hand.py --dataset cifar10 --unlabeled cifar100 --space darts --channels 16 --cells 8 \
        --batch 50 --hypergradient finite-difference --steps 3                           # the paper's size: minutes

It prints the losses, the cells, and what a step costs in time and memory.
"""

import argparse
import resource
import statistics
import sys
import time

import torch

from smallgroup.data import DataConfig, SearchData, open_search_data
from smallgroup.group import Learner, Optimizers, SmallGroup
from smallgroup.methods import METHODS, Relaxed
from smallgroup.spaces import Space, definition_of, draw


def make_space(options: argparse.Namespace, data: SearchData) -> Space:
    depth = {"darts": {"cells": options.cells}, "nas-bench-201": {"cells_per_stage": max(1, options.cells // 3)}}
    definition = definition_of(options.space)
    keys = {"name": options.space, "channels": options.channels, **depth[options.space]}
    return definition.space(definition.config(**keys), data.dataset.spec)


def make_learner(options: argparse.Namespace, space: Space, number: int) -> tuple[Learner, Optimizers]:
    relaxed = Relaxed(space, METHODS[options.method](), seed=options.seed, learner=number)
    v, w = relaxed.initial_weights("v"), relaxed.initial_weights("w")
    learner = Learner(relaxed, relaxed.initial_architecture(), v, w)
    adam = relaxed.method.optimizer
    optimizers = Optimizers(
        v=torch.optim.SGD(v.values(), lr=0.025, momentum=0.9, weight_decay=3e-4),
        w=torch.optim.SGD(w.values(), lr=0.025, momentum=0.9, weight_decay=3e-4),
        architecture=torch.optim.Adam(
            learner.architecture.values(), lr=adam.lr, betas=adam.betas, weight_decay=adam.weight_decay
        ),
        v_clip=5.0,
        w_clip=5.0,
    )
    return learner, optimizers


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--unlabeled", default="split")
    parser.add_argument("--space", choices=["nas-bench-201", "darts"], default="nas-bench-201")
    parser.add_argument("--method", choices=list(METHODS), default="darts")
    parser.add_argument("--hypergradient", choices=["first-order", "finite-difference", "exact"], default="first-order")
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--cells", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    data = open_search_data(DataConfig(dataset=options.dataset, unlabeled=options.unlabeled), seed=options.seed)
    space = make_space(options, data)
    learners, optimizers = zip(*(make_learner(options, space, k) for k in range(options.learners)), strict=True)
    group = SmallGroup(learners, hypergradient=options.hypergradient, optimizers=optimizers)
    train, validation = data.train(options.batch, options.seed), data.validation(options.batch, options.seed)
    unlabeled = data.without_labels(options.batch, options.seed)

    seconds = []
    for step in range(options.steps):
        start = time.perf_counter()
        report = group.step(train.batch(step), unlabeled.batch(step), validation.batch(step))
        seconds.append(time.perf_counter() - start)
        if step % max(1, options.steps // 10) == 0 or step == options.steps - 1:
            losses = "   ".join(
                f"learner {k}: V {one.v_loss:.3f}, W {one.w_loss:.3f}, validation {one.validation_loss:.3f}"
                for k, one in enumerate(report.learners)
            )
            print(f"step {step:4d}   {losses}", flush=True)
    for k, learner in enumerate(learners):
        print(f"\nthe cell of learner {k}\n\n{draw(learner.apply.derive(learner.architecture))}")
    # The system counts in kilobytes, on macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(
        f"\n{space}\n{options.method}, {options.hypergradient}, {options.learners} learners, batch {options.batch}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}: "
        f"{statistics.median(seconds):.2f} s per step (median of {len(seconds)}), peak memory {peak:,.0f} MB"
    )


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:  # data that is not there, or a size that cannot be built
        sys.exit(f"error: {error}")
