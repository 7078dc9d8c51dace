"""Devices by name: which one is chosen, and what is said of one that is not there."""

import sys
from importlib import metadata

import pytest
import torch

from smallgroup.config import resolve
from smallgroup.runner.config import RunConfig
from smallgroup.runner.machine import machine
from smallgroup.runtime import device, device_names
from smallgroup.runtime.device import choose_device
from smallgroup.runtime.device_names import NoDeviceError

GPUS = [torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs, as far as their names go."""
    monkeypatch.setattr(device, "_present", lambda: GPUS)
    monkeypatch.setattr(metadata, "version", lambda _: "2.13.0+cu130")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("name", "before", "found"),
    [
        ("auto", None, "cuda:0"),
        ("auto", "cpu", "cpu"),
        ("auto", "cuda (NVIDIA A100-SXM4-40GB)", "cuda:0"),
        ("auto", "mps", "cpu"),
        ("auto", "", "cuda:0"),
        ("cuda", "cpu", "cuda:0"),
        ("cuda:1", None, "cuda:1"),
        ("cpu", "cuda (X)", "cpu"),
    ],
)
def test_the_device_of_a_name(name: str, before: str | None, found: str) -> None:
    assert str(choose_device(name, before)) == found


@pytest.mark.usefixtures("two_gpus")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(NoDeviceError, match="device cuda:2 must be available, but this machine has cpu, cuda:0"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:100", "CUDA", "", "meta", "cpu:0"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="a device must be auto, cpu, cuda, cuda:N or mps, but got"):
        choose_device(name)
    with pytest.raises(ValueError, match="a device must be auto, cpu, cuda, cuda:N or mps, but got"):
        resolve({"run": {"device": name}})


def test_what_needs_no_torch_to_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "2.13.0+cpu")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(NoDeviceError, match=r"device cuda:1 .* torch 2.13.0\+cpu is built for the CPU only"):
        device_names.check_possible("cuda:1")
    with pytest.raises(NoDeviceError, match="device mps must be available, but it exists on macOS only"):
        device_names.check_possible("mps")
    device_names.check_possible("cpu")
    device_names.check_possible("auto")


def test_the_device_is_in_use_for_a_block() -> None:
    other = torch.device("cuda", 1)
    with device.using(other):
        assert device.current() == other
    assert device.current() == torch.device("cpu")


@pytest.mark.usefixtures("two_gpus")
def test_kernels_of_our_own_are_for_the_cpu() -> None:
    run = RunConfig(device="cuda", kernels="native")
    with pytest.raises(ValueError, match=r"run\.kernels=native needs the CPU, but the device is cuda:0"), machine(run):
        pass


def test_a_run_is_known_by_the_same_keys_on_every_device() -> None:
    plain = resolve({})
    assert "device" not in plain.run.identity
    assert plain.of_search() == resolve({"device": "cuda:1"}).of_search()
    assert resolve({"device": "cuda:1"}).run.device == "cuda:1"
    assert resolve({}, ["device=mps"]).run.device == "mps"


def test_every_device_is_tried() -> None:
    found = device.list_devices()
    assert found[0].name == "cpu"
    assert found[0].works
    assert found[0].memory is not None
    assert found[0].free is not None
    assert 0 < found[0].free < found[0].memory
    assert device.try_device(torch.device("cpu")) == 0.0


def test_a_device_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(where: torch.device) -> float:
        raise RuntimeError(f"no kernel image for {where}")

    monkeypatch.setattr(device, "try_device", fail)
    (record, *_) = device.list_devices()
    assert (record.works, record.tried) == (False, "no kernel image for cpu")
