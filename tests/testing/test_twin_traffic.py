"""What a step asks of a device: few reads, one copy per batch, and nothing that a CUDA graph could not contain."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from smallgroup import kernels
from smallgroup.data import Augmentation, DataConfig, Reader, SearchData, TensorImages, open_dataset, ordered
from smallgroup.data.colors import draw_jitter, jitter
from smallgroup.data.loader import Stream
from smallgroup.data.search_data import open_search_data
from smallgroup.data.sending import send_rows
from smallgroup.group import Learner, NonFiniteError, Optimizers, SmallGroup
from smallgroup.methods import METHODS
from smallgroup.methods.sampling import decide, drawn
from smallgroup.phases.passes import pass_time
from smallgroup.phases.search import SearchJob, metrics
from smallgroup.runtime import stream
from smallgroup.runtime.constants import constant_on, places_on
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.runtime.packing import send_packed
from smallgroup.spaces import Space
from smallgroup.spaces.darts import DartsSpace
from smallgroup.spaces.nas_bench_201 import NasBench201Space
from smallgroup.testing import Traffic, TwinDevice
from tests.configs import search_config
from tests.data.makers import class_folders

IMAGES = ImageSpec(10, 1, 8)
SMALL: dict[str, Space] = {
    "nas-bench-201": NasBench201Space(channels=4, cells_per_stage=1, images=IMAGES),
    "darts": DartsSpace(channels=4, cells=3, images=IMAGES),
}


@pytest.fixture(scope="module")
def data() -> SearchData:
    return open_search_data(DataConfig(labeled_fraction=0.1), seed=0)


def job_of(data: SearchData, twin: TwinDevice, space: str, method: str, learners: int) -> SearchJob:
    sizes = {"train": 8, "unlabeled": 8, "validation": 8}
    config = search_config(hypergradient="first-order", steps_per_epoch=9, architecture_warmup=0.0, batch_size=sizes)
    every = [(SMALL[space], METHODS[method]()) for _ in range(learners)]
    return SearchJob(config, data, every, seed=3, device=twin.device)


def traffic_of(data: SearchData, twin: TwinDevice, space: str, method: str, learners: int) -> Traffic:
    """What a first-order step asks for, after warm-up; metrics and batches belong to it."""
    with kernels.using("torch"):
        job = job_of(data, twin, space, method, learners)
        job.advance()
        job.advance()
        with twin.counted() as traffic:
            assert job.advance() is None
    return traffic


@pytest.mark.parametrize(
    ("space", "method", "learners", "copies", "launches"),
    [
        ("nas-bench-201", "darts", 2, 3, 3_900),
        ("nas-bench-201", "pc-darts", 2, 3, 5_900),
        ("nas-bench-201", "darts-minus", 1, 2, 1_660),
        ("nas-bench-201", "fair-darts", 1, 2, 930),
        ("darts", "darts", 1, 2, 3_050),
    ],
)
def test_a_first_order_step_reads_once_and_copies_its_batches_alone(
    data: SearchData, twin: TwinDevice, *, space: str, method: str, learners: int, copies: int, launches: int
) -> None:
    """One copy per batch: places and random numbers; the images are on the device already."""
    found = traffic_of(data, twin, space, method, learners)
    assert found.launches.total() <= launches, found.launches
    assert found.reads.total() == 1, found
    assert found.copies.total() == copies, found
    assert files_of(found.copies) == {"data/sending.py"}
    # Between the arrival of the batches and this one nothing waits: a CUDA graph could contain it.
    assert files_of(found.reads) == {"group/tensors.py"}


def test_what_metrics_need_is_read_for_several_steps_at_once(
    data: SearchData, twin: TwinDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_MOST_UNREAD", 3)
    job = job_of(data, twin, "nas-bench-201", "fair-darts", 1)
    with twin.counted() as traffic:
        for _ in range(5):
            job.advance()
    assert Counter(place.partition(" at ")[2].partition(":")[0] for place in traffic.reads.elements()) == {
        "group/tensors.py": 5,
        "search/reading.py": 1,
    }
    assert job.metrics.state()[0]["w_loss"][1] == 5


def test_files_are_sent_one_batch_ahead(tmp_path: Path, twin: TwinDevice) -> None:
    images = open_dataset(f"folder:{class_folders(tmp_path, 10)}", Path(), size=12).train
    own: dict[str, Any] = {"batch_size": 8, "seed": 1, "purpose": "train", "augmentation": Augmentation(), "workers": 1}
    own |= {"mean": (0.5,) * 3, "std": (0.2,) * 3}
    here, there = (Reader(Stream(images, torch.arange(20), device=device, **own)) for device in ("cpu", twin.device))
    copies = []
    for step in range(3):
        with twin.counted() as traffic:
            found = there.batch(step)
        copies.append(sum("data/sending.py" in place for place in traffic.copies.elements()))
        assert all(torch.equal(one, other.cpu()) for one, other in zip(here.batch(step), found, strict=True))
    for reader in (here, there):
        reader.close()
    assert copies == [4, 2, 2]  # pixels, and the small numbers of all images


@pytest.mark.parametrize(("method", "learners"), [("gdas", 2), ("snas", 1), ("dsnas", 1)])
def test_what_is_drawn_travels_as_one_and_decides_before_a_step(
    data: SearchData, twin: TwinDevice, method: str, learners: int
) -> None:
    """The architecture is read with the metrics of the step before."""
    found = traffic_of(data, twin, "nas-bench-201", method, learners)
    assert found.reads.total() <= 2, found
    assert files_of(found.reads) == {"group/tensors.py", "search/reading.py"}
    beside = [place for place in found.copies.elements() if "data/sending.py" not in place]
    assert [place.partition(" at ")[2].partition(":")[0] for place in beside] == ["runtime/packing.py"], found


def test_small_tensors_travel_packed(twin: TwinDevice) -> None:
    tensors = [torch.tensor([True]), torch.arange(3), torch.rand(2, 3), torch.zeros(0), torch.rand(2).double()]
    with twin.counted() as traffic:
        found = send_packed(tensors, twin.device)
    assert (traffic.copies.total(), traffic.reads.total()) == (1, 0)
    assert [one.dtype for one in found] == [one.dtype for one in tensors]
    assert all(torch.equal(one.cpu(), other) for one, other in zip(found, tensors, strict=True))
    assert send_packed([], twin.device) == []


def test_a_decided_column_stands_whatever_the_device_finds(twin: TwinDevice) -> None:
    noise = torch.zeros(2, 3).to(twin.device)
    assert drawn(noise, noise).tolist() == [0, 0]
    decide(noise, torch.tensor([2, 1]).to(twin.device))
    assert drawn(noise, noise).tolist() == [2, 1]


def files_of(places: Counter[str]) -> set[str]:
    return {place.partition(" at ")[2].partition(":")[0] for place in places}


def group_of(twin: TwinDevice, **options: Any) -> tuple[SmallGroup, Tensor, Tensor]:
    def apply(w: dict[str, Tensor], a: dict[str, Tensor], x: Tensor) -> Tensor:
        return (x @ w["x"]).tanh() @ a["x"]

    made = []
    for k in range(2):
        a, v, w = ({"x": torch.randn(2, 2, generator=stream(k, i)).to(twin.device)} for i in range(3))
        made.append(Learner(apply, a, v, w))
    x = torch.randn(4, 2, generator=stream(4)).to(twin.device)
    return SmallGroup(made, hypergradient="first-order", **options), x, torch.tensor([0, 1, 0, 1]).to(twin.device)


def test_a_value_that_is_not_finite_ends_a_step_at_its_end_and_changes_nothing(twin: TwinDevice) -> None:
    group, x, y = group_of(twin)
    before = [t.clone() for one in group.learners for t in (*one.w.values(), *(one.v or {}).values())]
    with pytest.raises(NonFiniteError, match="the loss of pass 'v' of learner 0"):
        group.step((x * math.nan, y), x, (x, y))
    with pytest.raises(NonFiniteError, match="a label for peers of learner 0"):
        group.step((x, y), x * math.inf, (x, y))
    with pytest.raises(NonFiniteError, match="the loss of pass 'val' of learner 0"):
        group.step((x, y), x, (x * math.nan, y))
    after = [t for one in group.learners for t in (*one.w.values(), *(one.v or {}).values())]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert group.step((x, y), x, (x, y)).learners[0].v_loss is not None


def test_gradients_are_clipped_as_on_the_cpu(twin: TwinDevice) -> None:
    found = []
    for clip in (None, 1e-3):
        every = [Optimizers(v_clip=clip, w_clip=clip, architecture_clip=clip)] * 2
        group, x, y = group_of(twin, optimizers=every, architecture_lr=0.025)
        w, a = (tensors["x"].clone() for tensors in (group.learners[0].w, group.learners[0].architecture))
        group.step((x, y), x, (x, y))
        moved = [
            float((now["x"] - was).norm())
            for was, now in ((w, group.learners[0].w), (a, group.learners[0].architecture))
        ]
        found.append(moved)
    assert found[0][0] > 0.025 * 1e-3 * 2
    assert found[1] == pytest.approx([0.025 * 1e-3, 0.025 * 1e-3], rel=1e-2)


def test_a_batch_is_the_same_everywhere(twin: TwinDevice) -> None:
    pixels = torch.randint(256, (40, 3, 16, 16), generator=stream(0), dtype=torch.uint8)
    labels = torch.randint(10, (40,), generator=stream(1))
    every = [
        (Augmentation(cutout=4, color_jitter=True), TensorImages(pixels, labels)),
        (Augmentation(), TensorImages(pixels, labels, size=8)),
        (Augmentation(smallest_area=0.3), TensorImages(pixels, labels)),
    ]
    for augmentation, images in every:
        own: dict[str, Any] = {"batch_size": 8, "seed": 1, "purpose": "train", "augmentation": augmentation}
        own |= {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
        here, there = (Stream(images, torch.arange(40), device=device, **own) for device in ("cpu", twin.device))
        for step in (0, 7):
            expected, found = here.batch(step), there.batch(step)
            assert all(torch.equal(one, other.cpu()) for one, other in zip(expected, found, strict=True))
        look: dict[str, Any] = {"batch_size": 16, "mean": own["mean"], "std": own["std"]}
        pairs = zip(
            ordered(images, torch.arange(40), **look),
            ordered(images, torch.arange(40), device=twin.device, **look),
            strict=True,
        )
        assert all(torch.equal(x, u.cpu()) and torch.equal(y, v.cpu()) for (x, y), (u, v) in pairs)


@pytest.mark.parametrize("channels", [1, 3])
def test_colors_of_a_batch_are_those_of_its_images(twin: TwinDevice, channels: int) -> None:
    pixels = torch.randint(256, (12, channels, 9, 7), generator=stream(2), dtype=torch.uint8)
    factors, orders = draw_jitter(12, channels, stream(3))
    there = [tensor.to(twin.device) for tensor in (pixels, factors, orders)]
    jitter(*there)  # sends its constants
    with twin.captured():
        found = jitter(*there)
    assert torch.equal(found.cpu(), jitter(pixels, factors, orders))


def test_rows_travel_as_one(twin: TwinDevice) -> None:
    rows = [
        torch.tensor([5, 2**31 - 1]),
        None,
        torch.tensor([True, False]),
        torch.tensor([[1.5, math.nan], [-0.0, 1e-40]]),
    ]
    with twin.counted() as traffic:
        found = send_rows(rows, twin.device)
    assert traffic.copies.total() == 1
    assert traffic.reads.total() == 0
    for sent, given in zip(found, rows, strict=True):
        if given is None or sent is None:
            assert sent is given
            continue
        assert sent.dtype == given.dtype
        assert sent.cpu().numpy().tobytes() == given.numpy().tobytes()


def test_constants_are_sent_once(twin: TwinDevice) -> None:
    mask = torch.tensor([True, False])
    with twin.counted() as traffic:
        assert constant_on(mask, twin.device) is constant_on(mask, twin.device)
        assert places_on([1, 0], twin.device) is places_on([1, 0], twin.device)
        assert constant_on(mask.clone(), twin.device) is not constant_on(mask, twin.device)
    assert traffic.copies.total() == 3
    assert constant_on(mask, torch.device("cpu")) is mask


def test_a_measured_pass_is_waited_for(twin: TwinDevice) -> None:
    weight = torch.ones(3, 4, device=twin.device).requires_grad_()
    with twin.counted() as traffic:
        pass_time(lambda x: x.mean(dim=(2, 3)) @ weight, [weight], torch.ones(3, 2, 2, device=twin.device))
    assert traffic.reads.total() == 8  # four passes of either size
