"""Training from scratch as a job: steps against plain torch, resumption at zero tolerance, and the test images."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import smallgroup
from smallgroup.data import AugmentationConfig, DataConfig
from smallgroup.data.training_data import open_training_data
from smallgroup.jobs import make_training
from smallgroup.phases.evaluate import evaluate
from smallgroup.phases.training import TrainingJob, read_model
from smallgroup.phases.training.job import NonFiniteTrainingError
from smallgroup.report.classes import is_png
from smallgroup.runner import read_rows
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.config import NetworkConfig
from smallgroup.spaces.darts.published import published
from smallgroup.spaces.genotypes import resolve
from smallgroup.spaces.outputs import Outputs
from tests.configs import FULL_SIZE, training_config
from tests.data.makers import class_folders, picture
from tests.runner.jobs import interrupted, runner

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_1x1~2|"
SMALL = NetworkConfig(**FULL_SIZE, channels=4, cells=3, cells_per_stage=1, auxiliary="two-norms")


def job(data: DataConfig | None = None, genotype: str = "DARTS_V2", seed: int = 0, **options: Any) -> TrainingJob:
    given = {"epochs": 2, "steps_per_epoch": 3, "batch_size": 16, "network": SMALL, "drop_path": 0.3, **options}
    config = training_config(**given)
    opened = open_training_data(data or DataConfig(), config.augmentation, seed=1, validation=config.validation)
    return TrainingJob(config, opened, resolve(genotype)[1], seed=seed)


def everything(training: TrainingJob) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in training.state()[0].items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({}, 1),
        ({}, 3),
        ({"genotype": CELL}, 4),
        ({"accumulate": 3, "precision": "bfloat16"}, 4),
        ({"precision": "float16", "genotype": CELL}, 5),
        ({"optimizer": "adamw", "average": 0.9, "schedule": "one-cycle", "validation": 0.2, "genotype": CELL}, 4),
    ],
)
def test_a_training_that_was_interrupted_ends_with_the_same_bits(
    tmp_path: Path, options: dict[str, Any], step: int
) -> None:
    whole = job(**options)
    runner(tmp_path / "whole").run(whole)
    interrupted(job(**options), tmp_path / "part", step)
    again = job(**options)
    runner(tmp_path / "part").run(again, resume=True)
    assert same(everything(whole), everything(again))
    assert whole.state()[1] == again.state()[1]
    rows = [list(read_rows(tmp_path / name / "metrics.jsonl")) for name in ("whole", "part")]
    assert rows[0] == rows[1]
    assert [row["epoch"] for row in rows[0]] == [0, 1]


@pytest.mark.parametrize(
    ("forgotten", "options"),
    [
        ("momentum.classifier.weight", {}),
        ("network.cells.0.preprocess0.2.running_mean", {}),
        ("exp_avg.classifier.weight", {"optimizer": "adamw"}),
        ("exp_avg_sq.classifier.weight", {"optimizer": "adamw"}),
        ("count.classifier.weight", {"optimizer": "adamw"}),
        ("average.classifier.weight", {"average": 0.9}),
        ("average.cells.0.preprocess0.2.running_var", {"average": 0.9}),
    ],
)
def test_what_is_forgotten_is_noticed(forgotten: str, options: dict[str, Any]) -> None:
    """The negative control; running statistics do not move training, but the state that is kept."""
    training, again = job(**options), job(**options)
    for _ in range(2):
        training.advance()
    tensors, record = training.state()
    assert forgotten in tensors
    tensors[forgotten] = torch.zeros_like(tensors[forgotten])
    again.load_state({name: tensor.clone() for name, tensor in tensors.items()}, record)
    for each in (training, again):
        each.advance()
    assert not same(everything(training), everything(again))


def test_workers_change_no_bit_and_a_resumption_neither(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "images", 12)
    alone, helped = (DataConfig(dataset=f"folder:{folder}", size=12, workers=workers) for workers in (0, 2))
    whole = job(alone, batch_size=5, steps_per_epoch=None)
    runner(tmp_path / "whole").run(whole)
    interrupted(job(helped, batch_size=5, steps_per_epoch=None), tmp_path / "part", whole.steps_per_epoch + 1)
    again = job(helped, batch_size=5, steps_per_epoch=None)
    runner(tmp_path / "part").run(again, resume=True)
    assert same(everything(whole), everything(again))


def test_a_step_is_that_of_plain_torch() -> None:
    """The loss with its head and smoothing, clipping, decay and momentum, written out; drop path by its key."""
    training = job(label_smoothing=0.1, auxiliary_weight=0.4, clip=0.5, steps_per_epoch=2, momentum=0.8, lr=0.2)
    plain = job(label_smoothing=0.1, steps_per_epoch=2)
    optimizer = torch.optim.SGD(plain.network.parameters(), momentum=0.8, weight_decay=3e-4, lr=9.0)
    for step in range(4):
        training.advance()
        optimizer.param_groups[0]["lr"] = 0.2 if step < 2 else 0.1  # the cosine of two epochs
        plain.network.drop_path = 0.0 if step < 2 else 0.15
        x, y = plain.batches.batch(step)
        outputs = Outputs.of(plain.network(x, (0, "evaluation", step, 0)))
        assert outputs.auxiliary is not None
        first, second = (
            functional.cross_entropy(logits, y, label_smoothing=0.1) for logits in outputs if logits is not None
        )
        optimizer.zero_grad()
        (first + 0.4 * second).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(plain.network.parameters(), 0.5)
        optimizer.step()
        for mine, theirs in zip(training.network.parameters(), plain.network.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_adamw_along_one_cycle_and_its_average_are_those_of_plain_torch() -> None:
    training = job(genotype=CELL, optimizer="adamw", lr=0.01, weight_decay=0.1, schedule="one-cycle", average=0.5)
    plain = job(genotype=CELL)
    optimizer = torch.optim.AdamW(plain.network.parameters(), weight_decay=0.1, foreach=False)
    average = {name: tensor.clone() for name, tensor in plain.network.state_dict().items()}
    for step in range(6):
        training.advance()
        rise = step / 6 / 0.25
        fall = math.cos(math.pi * (step / 6 - 0.25) / 0.75)
        optimizer.param_groups[0]["lr"] = 0.01 * ((0.04 + 0.96 * rise) if rise < 1 else (1 + fall) / 2)
        x, y = plain.batches.batch(step)
        plain.network.train()
        optimizer.zero_grad()
        functional.cross_entropy(Outputs.of(plain.network(x)).logits, y).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(plain.network.parameters(), 5.0)
        optimizer.step()
        decay = min(0.5, (1 + step) / (10 + step))
        for name, tensor in plain.network.state_dict().items():
            old = average[name]
            average[name] = decay * old + (1 - decay) * tensor if old.is_floating_point() else tensor.clone()
        # Adam divides rounding errors by their size where a gradient is 0: a shift right before a batch norm.
        moved = {name for name, one in plain.network.named_parameters() if float(one.grad.abs().max()) > 1e-6}  # type: ignore[union-attr]
        kept, weights = training.trainee.shipped.state_dict(), training.network.state_dict()
        assert len(moved) > 20
        for name in moved:
            torch.testing.assert_close(kept[name], average[name], rtol=2e-3, atol=2e-5)
            torch.testing.assert_close(weights[name], plain.network.state_dict()[name], rtol=2e-3, atol=2e-5)
    for name in ("body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"):  # of the stem
        torch.testing.assert_close(kept[name], average[name], rtol=2e-3, atol=2e-5)


def test_the_average_is_what_is_tested_and_kept(tmp_path: Path) -> None:
    short = {"epochs": 1, "steps_per_epoch": 3, "batch_size": 16, "network": SMALL.model_dump(), "average": 0.9}
    config, cell = smallgroup.Config(training=short), resolve(CELL)[1]
    result = smallgroup.train(cell, config, out=tmp_path / "run", progress=False)
    training = make_training(config, cell)
    assert isinstance(training, TrainingJob)
    while not training.finished:
        training.advance()
    kept, own = read_model(tmp_path / "run")[0].state_dict(), training.trainee.shipped.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in kept.items())
    assert not torch.equal(kept["classifier.weight"], training.network.classifier.weight)
    assert result.test_error == training.test().error


def test_validation_images_are_measured_and_not_trained_on() -> None:
    """A fifth of every class; the curve is the error of the network as it stands after each epoch."""
    training = job(genotype=CELL, validation=0.2, steps_per_epoch=None, batch_size=200)
    kept = training.data.validation
    assert kept is not None
    labels = training.data.dataset.labels()
    shares = torch.bincount(labels[kept]) / torch.bincount(labels)
    assert ((shares - 0.2).abs() < 0.01).all()
    seen = torch.cat([training.batches.indices_of(step) for step in range(training.steps_per_epoch)])
    assert not set(seen.tolist()) & set(kept.tolist())
    assert len(seen) + len(kept) == len(labels)
    rows = None
    while rows is None:
        rows = training.advance()
    training.network.eval()
    found = evaluate(training.trainee.logits, training.data.dataset.train, training.data.dataset, kept)
    assert rows[0]["validation_error"] == found.error


def test_where_a_class_has_one_image_there_is_no_validation_curve(tmp_path: Path) -> None:
    for name, count in (("train/ants", 1), ("train/bees", 6), ("val/ants", 1), ("val/bees", 1)):
        for number in range(count):
            picture(tmp_path / name / f"{number}.png", key=f"{name}{number}")
    training = job(DataConfig(dataset=f"folder:{tmp_path}", size=12), genotype=CELL, validation=0.5, batch_size=4)
    assert training.data.validation is None
    assert len(training.data.trained) == 7


def test_a_divided_batch_has_the_gradient_of_its_parts() -> None:
    training = job(genotype=CELL, accumulate=2, batch_size=16)
    x, y = training.batches.batch(0)
    training.network.train()
    parts = []
    for half in (slice(0, 8), slice(8, 16)):
        loss = functional.cross_entropy(Outputs.of(training.network(x[half])).logits, y[half])
        parts.append(torch.autograd.grad(loss, list(training.network.parameters())))
    training._gradients(x.contiguous(memory_format=torch.channels_last), y)
    for parameter, *gradients in zip(training.network.parameters(), *parts, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, sum(gradients) / 2, rtol=1e-4, atol=1e-6)


def test_drop_path_and_rates_change_from_epoch_to_epoch() -> None:
    training = job(steps_per_epoch=1, epochs=3, lr=0.1)
    seen = []
    while not training.finished:
        training.advance()
        seen.append((training.network.drop_path, training.optimizer.param_groups[0]["lr"]))
    assert [drop for drop, _ in seen] == pytest.approx([0.0, 0.1, 0.2])
    assert [rate for _, rate in seen] == pytest.approx([0.1, 0.075, 0.025])


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_finite_stops_before_the_update(what: str) -> None:
    training = job()
    training.advance()
    if what == "loss":
        training.network.classifier.bias.data[0] = float("inf")
    else:
        weight: Any = training.network.classifier.weight
        weight.register_hook(lambda gradient: gradient * float("nan"))
    before = everything(training)
    with pytest.raises(NonFiniteTrainingError, match=f"the {what} is not finite in step 1; nothing was changed"):
        training.advance()
    assert same(before, everything(training))
    assert training.step == 1


def test_the_test_images_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    original = TrainingJob.test

    def test(self: TrainingJob) -> Any:
        looks.append(self.step)
        return original(self)

    monkeypatch.setattr(TrainingJob, "test", test)
    config = {"training": {"epochs": 3, "steps_per_epoch": 2, "network": SMALL.model_dump()}}
    once = smallgroup.train("DARTS_V2", config, out=tmp_path / "once")
    assert looks == [6]
    assert once.test_set == "looked at once, after the last epoch"
    assert once.best_test_error is None
    assert not any("test" in key for row in read_rows(tmp_path / "once" / "metrics.jsonl") for key in row)
    config["training"]["track_test"] = True
    often = smallgroup.train("DARTS_V2", config, out=tmp_path / "often")
    assert looks == [6, 2, 4, 6, 6]
    assert often.test_set == "looked at after every epoch"
    tracked = [row["test_error"] for row in read_rows(tmp_path / "often" / "metrics.jsonl")]
    assert often.best_test_error == min(tracked)
    assert often.test_error == tracked[-1] == once.test_error  # looking does not change the training


@pytest.mark.parametrize("genotype", ["PDARTS", CELL])
def test_a_finished_training_says_all_and_its_model_does_the_same(tmp_path: Path, genotype: str) -> None:
    config = {"training": {"epochs": 1, "steps_per_epoch": 10, "network": SMALL.model_dump()}, "seed": 2}
    result = smallgroup.train(genotype, config, out=tmp_path)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written == result.to_dict()
    promised = (
        "test_error test_error_top5 balanced_error best_test_error parameters multiply_adds epochs seconds genotype"
    )
    assert written.keys() >= set(promised.split())
    data = open_training_data(DataConfig(), AugmentationConfig(), seed=1).dataset
    assert data.test is not None
    network, model = read_model(tmp_path)
    assert model.genotype == resolve(genotype)[1]
    assert not network.training
    found = evaluate(network, data.test, data, torch.arange(len(data.test)))
    assert found.error == result.test_error
    assert found.confusion == result.confusion
    right = sum(row[k] for k, row in enumerate(found.confusion))
    assert result.test_error == pytest.approx(100 * (1 - right / len(data.test)))
    assert result.class_errors is not None
    assert result.class_errors["3"] == pytest.approx(100 * (1 - found.confusion[3][3] / sum(found.confusion[3])))
    assert sum(sum(row) for row in found.confusion) == len(data.test)
    mistakes = json.loads((tmp_path / "mistakes.json").read_text())
    assert (mistakes["wrong"], len(mistakes["images"])) == (sum(found.wrong), min(24, sum(found.wrong)))
    assert data.test.labels is not None
    for one in mistakes["images"]:
        assert (one["given"], one["class"]) == (found.given[one["image"]], int(data.test.labels[one["image"]]))
        assert one["given"] != one["class"]
        assert is_png(one["picture"])
    assert result.test_error_top5 is not None
    assert 0 <= result.test_error_top5 < result.test_error
    again = smallgroup.train(genotype, config, out=tmp_path, resume=True)
    assert again == result
    with pytest.raises(ValueError, match="seed was 2 and is 3"):
        smallgroup.train(genotype, {**config, "seed": 3}, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="genotype"):
        smallgroup.train("DARTS_V1", config, out=tmp_path, resume=True)


def test_all_training_images_are_trained_on() -> None:
    training = job(steps_per_epoch=None, epochs=1)
    assert sum(len(training.batches.indices_of(step)) for step in range(training.steps)) == 1438
    assert len(training.data.dataset.train) == 1438


def test_the_trained_network_is_the_cell_that_was_searched(tmp_path: Path) -> None:
    small = {"epochs": 1, "steps_per_epoch": 2, "batch_size": {"train": 8, "unlabeled": 8, "validation": 8}}
    config = {"space": {"name": "darts", "channels": 2}, "learners": 1, "hypergradient": "first-order"}
    found = smallgroup.search({**config, "search": small, "data": {"labeled_fraction": 0.05}}, out=tmp_path)
    result = smallgroup.train(
        tmp_path, {"training": {"epochs": 1, "steps_per_epoch": 1, "network": SMALL.model_dump()}}
    )
    assert result.genotype == found.genotype
    assert result.space == "darts"


def test_published_cells_have_published_sizes_in_the_recipe_of_the_paper() -> None:
    config = smallgroup.Config(recipe="paper", dataset="cifar10", space="darts").training
    design = config.network.design(ImageSpec(10, 3, 32), "darts")
    from smallgroup.spaces.count import parameters  # noqa: PLC0415
    from smallgroup.spaces.networks import build_network  # noqa: PLC0415

    assert parameters(build_network(published()["DARTS_V2"], design, device="meta")) == 3_349_342
