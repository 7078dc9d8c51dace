"""Precisions by name: which device has which, what is set for CUDA, and what is refused."""

from typing import Any

import pytest
import torch

from smallgroup.cli.main import main
from smallgroup.config import resolve
from smallgroup.runtime import precision
from smallgroup.runtime.precision_names import Precision, check_first_order

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("wanted", "device", "rule"),
    [
        ("tf32", "cpu", "run.precision=tf32 needs a CUDA device, but the device is cpu; take float32"),
        ("bfloat16", "lazy", "run.precision=bfloat16 needs a device with autocast, but lazy has none; take float32"),
    ],
)
def test_a_device_must_have_it(wanted: Precision, device: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule), precision.using(wanted, torch.device(device)):
        pass
    assert precision.current() == "float32"


@pytest.mark.parametrize(("wanted", "products"), [("float32", "ieee"), ("bfloat16", "ieee"), ("tf32", "tf32")])
def test_torch_rounds_to_tf32_only_where_it_is_asked_for(wanted: Precision, products: str) -> None:
    """Its own default is TF32 in convolutions; the settings exist without a GPU."""
    both: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn.conv]  # type: ignore[attr-defined]
    before = [each.fp32_precision for each in both]
    with precision.using(wanted, CUDA):
        assert precision.current() == wanted
        assert [each.fp32_precision for each in both] == [products, products]
    assert [each.fp32_precision for each in both] == before


def test_second_order_terms_are_refused_in_less() -> None:
    check_first_order("float32", "exact")
    check_first_order("bfloat16", "first-order")
    for wanted in ("bfloat16", "tf32"):
        with pytest.raises(ValueError, match=f"run.precision={wanted} needs search.hypergradient=first-order"):
            check_first_order(wanted, "finite-difference")


def test_the_command_refuses_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["search", "--hypergradient", "finite-difference", "--set", "run.precision=bfloat16"]
    assert main(line) == 2
    error = capsys.readouterr().err.strip()
    assert "needs search.hypergradient=first-order" in error
    assert "\n" not in error


def test_a_run_is_known_by_it_but_earlier_runs_without_it() -> None:
    plain, half = resolve({}), resolve({"run": {"precision": "bfloat16"}})
    assert "precision" not in plain.of_search()["run"]
    assert half.of_search()["run"] == {**plain.of_search()["run"], "precision": "bfloat16"}
