"""Metrics and results computed once more from the state of a search, by other means, on images sorted by class."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.api import search
from smallgroup.config import resolve
from smallgroup.data import ordered
from smallgroup.data.splits import mixed
from smallgroup.group import NonFiniteError
from smallgroup.jobs import make_job
from smallgroup.phases.search import SearchJob
from smallgroup.phases.search.result import conclude
from tests.data.makers import class_folders

SIZES = {"train": 6, "unlabeled": 6, "validation": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 150 pictures, of which 120 validate: more than a batch of an evaluation, sorted by class."""
    return class_folders(tmp_path_factory.mktemp("images"), 150)


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "dataset": f"folder:{folder}",
        "data": {"size": 8},
        "space": {"name": "nas-bench-201", "channels": 2},
        "hypergradient": "first-order",
        "search": {"epochs": 1, "steps_per_epoch": 4, "batch_size": SIZES, "v_warmup": 0, "architecture_warmup": 0},
        **more,
    }


def by_hand(job: SearchJob, weights: Any, architecture: Any, learner: int) -> tuple[float, float, list[float]]:
    """Loss, error and the share of each class: the images in the order of `mixed`, a hundred at a time."""
    dataset, indices = job.data.dataset, mixed(job.data.splits.validation)
    x, y = (
        torch.cat(parts) for parts in zip(*ordered(dataset.train, indices, batch_size=7, **stats(job)), strict=True)
    )
    relaxed = job.searchers[learner].relaxed
    parts = []
    with torch.no_grad():
        for low in range(0, len(x), 100):
            parts.append(relaxed(weights, architecture, x[low : low + 100]))  # noqa: PERF401
    logits = torch.cat(parts)
    right = logits.argmax(dim=1) == y
    shares = [100 * float(right[y == k].float().mean()) for k in range(len(dataset.classes))]
    return float(functional.cross_entropy(logits, y)), 100 * (1 - float(right.float().mean())), shares


def stats(job: SearchJob) -> dict[str, Any]:
    return {"mean": job.data.dataset.mean, "std": job.data.dataset.std}


def onehot(genotype: Any) -> Tensor:
    """An architecture that is the derived cell and nothing else: logits of 0 and -inf, as near as it gets."""
    operations = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    return torch.tensor([[0.0 if name == chosen else -1e9 for name in operations] for chosen in genotype.operations])


def test_errors_are_those_of_the_right_weights_on_the_right_images(folder: Path, tmp_path: Path) -> None:
    job = make_job(resolve(settings(folder, learners=3)))
    assert len(job.data.splits.validation) == 120
    reports = []
    original = job.metrics.note

    def note(report: Any, beside: Any = None) -> Any:
        reports.append(report)
        return original(report, beside)

    job.metrics.note = note  # type: ignore[method-assign]
    rows: Any = None
    while rows is None:
        rows = job.advance()
    for k, row in enumerate(rows):
        learner = job.searchers[k].learner
        assert learner.v is not None
        loss, error, _ = by_hand(job, learner.w, learner.architecture, k)
        assert row["w_validation_loss"] == pytest.approx(loss, rel=1e-4)
        assert row["w_error"] == pytest.approx(error)
        _, error, shares = by_hand(job, learner.v, learner.architecture, k)
        assert row["v_error"] == pytest.approx(error)
        assert row["v_recognised"] == pytest.approx(shares)
        genotype = job.searchers[k].relaxed.derive(learner.architecture)
        _, error, _ = by_hand(job, learner.w, {"alpha_cell": onehot(genotype)}, k)
        assert row["derived_error"] == pytest.approx(error)
        labels = [report.learners[k].soft_labels for report in reports]
        entropies = [float(-(p * p.log()).sum(dim=1).mean()) for p in labels]
        assert row["label_entropy"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)
        peers = [j for j in range(3) if j != k]
        agreements = [
            float((report.learners[k].soft_labels.argmax(1) == report.learners[j].soft_labels.argmax(1)).float().mean())
            for report in reports
            for j in peers
        ]
        assert row["agreement"] == pytest.approx(sum(agreements) / len(agreements))
    assert len({row["w_error"] for row in rows} | {row["v_error"] for row in rows}) > 1
    result = conclude(job, seed=0, seconds=0, folder=tmp_path)
    losses = [by_hand(job, s.learner.w, s.learner.architecture, k)[0] for k, s in enumerate(job.searchers)]
    assert [learner.validation_loss for learner in result.group] == pytest.approx(losses, rel=1e-4)
    assert result.retained == losses.index(min(losses))
    # The same images and weights: what the last epoch said is what the result says.
    assert [learner.validation_error for learner in result.group] == [row["w_error"] for row in rows]


def test_the_last_look_is_at_all_validation_images(folder: Path, tmp_path: Path) -> None:
    job = make_job(resolve(settings(folder)))
    job.metrics.indices = job.metrics.indices[:10]
    while not job.finished:
        job.advance()
    result = conclude(job, seed=0, seconds=0, folder=tmp_path)
    for k, searcher in enumerate(job.searchers):
        loss, error, _ = by_hand(job, searcher.learner.w, searcher.learner.architecture, k)
        assert result.group[k].validation_loss == pytest.approx(loss, rel=1e-4)
        assert result.group[k].validation_error == pytest.approx(error)


def test_batches_of_an_evaluation_mix_the_classes_and_do_not_depend_on_the_order() -> None:
    indices = torch.arange(1000)
    order = mixed(indices)
    assert torch.equal(order.sort().values, indices)
    assert torch.equal(order, mixed(indices.flip(0)))
    for batch in order.reshape(10, 100):  # ten classes of a hundred, one after the other
        assert len(set((batch // 100).tolist())) == 10


def test_the_metrics_look_at_images_of_all_classes(tmp_path: Path) -> None:
    job = make_job(resolve({**settings(class_folders(tmp_path, 90)), "learners": 1}))
    few = type(job.metrics)(job.searchers, job.data, images=30)
    assert len(few.indices) == 30
    counts = torch.bincount(job.data.dataset.labels()[few.indices], minlength=3)
    assert int(counts.min()) >= 3


def test_a_learner_that_is_lost_in_its_last_step_is_not_retained(folder: Path, tmp_path: Path) -> None:
    """The step itself was finite; what it led to is not."""
    weights = {"lr": 1e38, "clip": None}
    given = settings(folder, learners=2)
    given["search"] |= {"weights": weights, "steps_per_epoch": 1, "order": "a-v-w", "labels_from": "w"}
    with pytest.raises(NonFiniteError, match="the validation loss at the end of epoch 1 of learner 0 is not finite"):
        search(given, out=tmp_path)
    assert not (tmp_path / "result.json").exists()
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines() if (tmp_path / "metrics.jsonl").exists() else []:
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_what_is_random_in_a_method_is_left_out_of_evaluations(folder: Path) -> None:
    job = make_job(resolve(settings(folder, method="gdas", learners=1), ["space.derive=benchmark"]))
    relaxed, learner = job.searchers[0].relaxed, job.searchers[0].learner
    x = torch.zeros(4, 3, 8, 8).normal_(generator=torch.Generator().manual_seed(0))
    seen = []
    for step in (0, 1, 2):
        relaxed.begin_step(step)
        with torch.no_grad():
            seen.append(relaxed(learner.w, learner.architecture, x))
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])
    derived = relaxed.derived_logits(learner.w, relaxed.derive(learner.architecture), x)
    torch.testing.assert_close(seen[0], derived)
    assert math.isfinite(float(seen[0].sum()))
