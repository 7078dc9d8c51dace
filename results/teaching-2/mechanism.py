"""Measure what the terms of the architecture gradient are made of, in the setting of primary.yaml.

For each seed and arm, a search is carried out up to the step in which the architecture would first move. There the
gradient is computed on many batches, as its four terms. The script asks of each term how large it is beside the direct
term, and how much of it is the same on other batches (signal, not noise): the gradients of the first half of the
batches are averaged, those of the second half as well, and the two means are compared. It also compares the whole
gradient with a reference: the gradient at the same architecture for weights that were trained much longer, on all
labeled images.

    python results/teaching-2/mechanism.py --seeds 101-108 --out results/teaching-2/mechanism.json
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.jobs import make_job
from smallgroup.phases.search import SearchJob
from smallgroup.study import open_study, planned

TERMS = ("direct", "own", "cross", "label")
ARMS = ("teaching pair", "self-taught pair", "independent pair")
BATCHES = 32
LONG = 2000
"""Steps of the reference, beside the 180 of a search up to there."""


def jobs(seed: int) -> Iterator[tuple[str, SearchJob]]:
    """Yield each arm of a seed at the step in which the architecture would first move."""
    name, study = open_study(str(Path(__file__).with_name("primary.yaml")), {"seeds": [seed]})
    for line in planned(name, study).lines:
        if line.name in ARMS:
            job = make_job(line.runs[seed].search.config)
            while job.course.kind(job.step) != "all":
                job.advance()
            yield line.name, job


def gradients(job: SearchJob) -> list[dict[str, Tensor]]:
    """Return each term of each learner's gradient, a row per batch."""
    rows: list[list[dict[str, Tensor]]] = []
    for searcher in job.searchers:
        searcher.prepare(job.step)
    for i in range(BATCHES):
        at = job.step + i
        unlabeled = job.unlabeled.batch(at) if job.course.teaches else None
        found = job.group.architecture_gradients(job.train.batch(at), unlabeled, job.validation.batch(at), parts=True)
        rows.append([{term: flat(tensors) for term, tensors in one.items()} for one in found])
    return [{term: torch.stack([row[k][term] for row in rows]) for term in TERMS} for k in range(len(job.searchers))]


def flat(tensors: dict[str, Tensor]) -> Tensor:
    """Return scores as one vector, centered on each edge: what a softmax cannot see is left out."""
    return torch.cat([(t - t.mean(dim=-1, keepdim=True)).flatten() for t in tensors.values()])


def reference(job: SearchJob, k: int) -> Tensor:
    """Return the gradient at the same architecture after long training of W on all labeled images."""
    learner, size = job.searchers[k].learner, job.config.batch_size.train
    w = {name: tensor.detach().clone().requires_grad_() for name, tensor in learner.w.items()}
    optimizer = torch.optim.SGD(list(w.values()), lr=0.05, momentum=0.9, weight_decay=3e-4)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, LONG)
    streams = (job.data.train(size, seed=1), job.data.validation(size, seed=1))
    apply = job.searchers[k].relaxed
    for step in range(LONG):
        x, y = streams[step % 2].batch(step // 2)
        loss = functional.cross_entropy(apply(w, learner.architecture, x), y)
        for tensor, gradient in zip(w.values(), torch.autograd.grad(loss, list(w.values())), strict=True):
            tensor.grad = gradient
        torch.nn.utils.clip_grad_norm_(list(w.values()), 5.0)
        optimizer.step()
        rates.step()
    a = {name: tensor.detach().clone().requires_grad_() for name, tensor in learner.architecture.items()}
    steps, total = len(streams[1]), torch.zeros(())
    for step in range(steps):
        x, y = streams[1].batch(step)
        loss = functional.cross_entropy(apply({n: t.detach() for n, t in w.items()}, a, x), y)
        total = total + flat(dict(zip(a, torch.autograd.grad(loss, list(a.values())), strict=True))) / steps
    return total


def cosine(one: Tensor, other: Tensor) -> float:
    """Return the cosine of two vectors; 0 where one of them vanishes."""
    return float(functional.cosine_similarity(one.double(), other.double(), dim=0))


def measured(terms: dict[str, Tensor], towards: Tensor) -> dict[str, float]:
    """Return sizes, agreement of the two halves of the batches, and cosines with the reference."""
    total = torch.stack(list(terms.values())).sum(dim=0)
    found: dict[str, float] = {}
    for name, rows in {**terms, "total": total}.items():
        if not bool(rows.any()):
            continue
        first, second = rows[: BATCHES // 2].mean(dim=0), rows[BATCHES // 2 :].mean(dim=0)
        found[f"{name}: norm / direct"] = float(rows.norm(dim=1).mean() / terms["direct"].norm(dim=1).mean())
        found[f"{name}: cosine of two halves"] = cosine(first, second)
        found[f"{name}: same sign in both halves"] = float((first.sign() == second.sign()).double().mean())
        found[f"{name}: cosine with the reference, one batch"] = fmean(cosine(row, towards) for row in rows)
        found[f"{name}: cosine with the reference, {BATCHES} batches"] = cosine(rows.mean(dim=0), towards)
    return found


def main() -> None:
    """Measure all seeds and write a file; one that is there already is continued."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default="101-108")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    low, high = (int(part) for part in given.seeds.split("-"))
    torch.set_num_threads(1)
    found: dict[str, Any] = json.loads(given.out.read_text())["seeds"] if given.out.exists() else {}
    for seed in range(low, high + 1):
        if str(seed) in found:
            continue
        made = dict(jobs(seed))
        towards = [reference(made["independent pair"], k) for k in range(2)]
        found[str(seed)] = {
            arm: [measured(terms, towards[k]) for k, terms in enumerate(gradients(job))] for arm, job in made.items()
        }
        summary = {arm: summarized([found[s][arm] for s in found]) for arm in ARMS}
        given.out.write_text(json.dumps({"summary": summary, "seeds": found}, indent=1) + "\n")
        print(seed, "done", flush=True)


def summarized(seeds: list[list[dict[str, float]]]) -> dict[str, Any]:
    """Return mean and standard deviation over seeds of the mean of the learners."""
    means = {key: [fmean(one[key] for one in seed) for seed in seeds] for key in seeds[0][0]}
    return {
        key: {"mean": fmean(values), "deviation": stdev(values) if len(values) > 1 else None, "n": len(values)}
        for key, values in means.items()
    }


if __name__ == "__main__":
    main()
