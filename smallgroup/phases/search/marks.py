"""States of a search at the ends of its last epochs, to which a method may ask to go back."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import Tensor

_PREFIX = "mark."


class Marks:
    """The last `reach` states; none are kept where no method goes back."""

    def __init__(self, reach: int) -> None:
        self.reach = reach
        self._kept: dict[int, tuple[dict[str, Tensor], dict[str, Any]]] = {}

    def note(self, epoch: int, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Keep the state at the end of an epoch."""
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        self._kept[epoch] = copies, deepcopy(dict(record))
        self._kept = {known: state for known, state in self._kept.items() if epoch - self.reach < known <= epoch}

    def check_known(self, epoch: int, method: str) -> None:
        """Refuse an epoch whose state is not kept."""
        if epoch not in self._kept:
            known = ", ".join(map(str, self._kept)) or "none"
            raise ValueError(
                f"a method can roll back to epochs within its reach ({known}), but {method} asked for {epoch}"
            )

    def back_to(self, epoch: int) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        """Return the state at the end of an epoch, and forget those after it."""
        self._kept = {known: state for known, state in self._kept.items() if known <= epoch}
        return self._kept[epoch]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all kept states, to be saved with the run."""
        tensors = {
            f"{_PREFIX}{epoch}.{name}": tensor for epoch, (own, _) in self._kept.items() for name, tensor in own.items()
        }
        return tensors, {str(epoch): record for epoch, (_, record) in self._kept.items()}

    def load_state(self, tensors: Mapping[str, Tensor], records: Mapping[str, Any]) -> None:
        """Restore the states that a checkpoint holds."""
        self._kept = {int(epoch): ({}, dict(record)) for epoch, record in records.items()}
        for name, tensor in tensors.items():
            if name.startswith(_PREFIX):
                epoch, _, own = name.removeprefix(_PREFIX).partition(".")
                self._kept[int(epoch)][0][own] = tensor.clone()
