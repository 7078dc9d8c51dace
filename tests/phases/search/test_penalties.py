"""Limits of the final network as penalties of the search, for methods that have costs."""

from dataclasses import dataclass

import pytest

from smallgroup.config import resolve
from smallgroup.jobs import make_job
from smallgroup.methods import METHODS, Method


@dataclass
class Costly(Method):
    """A method of somebody else, with a penalty of its own."""

    name = "costly"
    weight_under_limits = 0.3
    cost_weight: float = 0.0


@pytest.mark.parametrize(
    ("limits", "cost"),
    [
        ({"max_parameters": 10_000}, "parameters"),
        ({"max_multiply_adds": 10_000}, "multiply_adds"),
        ({"max_flash_kb": 64, "max_parameters": 10_000}, "flash_kb"),
        ({"max_ram_kb": 64, "max_flash_kb": 64}, "ram_kb"),
        ({"max_latency_ms": 3}, "multiply_adds"),
    ],
)
def test_limits_become_penalties(limits: dict[str, float], cost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._registered, "costly", Costly)
    for method, weight in {"proxyless": 0.1, "snas": 0.1, "costly": 0.3}.items():
        asked = resolve({"method": method, "training": limits})
        found = asked.penalized()
        assert (found.search.cost, found.methods[method]["cost_weight"]) == (cost, weight)
        assert found.penalized() == found  # a run that is resumed has them already
        assert resolve(found.to_dict()) == found
        own = resolve({"method": method, "methods": {method: {"cost_weight": 0.5}}, "training": limits}).penalized()
        assert own.methods[method]["cost_weight"] == 0.5
    assert resolve({"method": "proxyless"}).penalized() == resolve({"method": "proxyless"})
    plain = resolve({"method": "darts", "training": limits})
    assert plain.penalized() == plain


@pytest.mark.parametrize(
    ("cost", "convolution", "pooling"),
    [
        # A cell of 4 channels on 8x8 pixels, its 8 on 4x4 and 16 on 2x2; a convolution has 3x3 weights.
        ("flash_kb", sum(9 * c * c + 8 * c for c in (4, 8, 16)) / 1024, 0.0),
        ("ram_kb", sum(c * s * s for c, s in ((4, 8), (8, 4), (16, 2))) / 1024, None),
    ],
)
def test_the_search_counts_what_is_limited(cost: str, convolution: float, pooling: float | None) -> None:
    config = resolve({"method": "proxyless", "learners": 1, "space": {"name": "nas-bench-201", "channels": 4}})
    config = config.model_copy(update={"search": config.search.model_copy(update={"cost": cost})})
    job = make_job(config)
    try:
        relaxed = job.searchers[0].relaxed
        (kind,) = relaxed.costs
        row = dict(zip(relaxed.space.kinds[kind].operations, relaxed.costs[kind][0].tolist(), strict=True))
    finally:
        job.close()
    assert row["nor_conv_3x3"] == pytest.approx(convolution)
    assert row["avg_pool_3x3"] == pytest.approx(convolution if pooling is None else pooling)
    assert row["skip_connect"] == row["none"] == 0
