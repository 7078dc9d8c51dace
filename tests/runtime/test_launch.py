"""What torchrun says, and how tables travel because of it."""

import pytest
import torch
from torch import distributed

from smallgroup.runtime import world
from smallgroup.runtime.launch import Launch, launched


def test_ranks_of_a_machine_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert launched() == Launch(5, 8, 1, 8, 0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert launched() == Launch(5, 8, 1, 4, 0)


@pytest.mark.parametrize(("gpus", "ranks", "backend"), [(0, 2, "gloo"), (1, 2, "gloo"), (2, 2, "nccl"), (4, 2, "nccl")])
def test_nccl_needs_a_gpu_for_every_process(
    gpus: int, ranks: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ChosenError(Exception):
        pass

    def choose(name: str, **_: object) -> None:
        raise ChosenError(name)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(distributed, "init_process_group", choose)
    monkeypatch.setattr(world, "_store", lambda _: None)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with pytest.raises(ChosenError, match=backend), world.joined(Launch(0, ranks, 0, ranks, 0)):
        pass
