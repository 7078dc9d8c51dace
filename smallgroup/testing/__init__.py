"""Contracts as test classes: inherit one, say what to test, and run pytest (which has to be installed).

    from smallgroup.testing import MethodContract

    class TestMine(MethodContract):
        def method(self):
            return MyMethod()

The built-in methods, spaces and tasks run through the same classes. `TwinDevice` shows without a GPU whether code would
run on one.
"""

from smallgroup.testing.definition_contract import DefinitionContract
from smallgroup.testing.method_contract import MethodContract
from smallgroup.testing.smooth import SmoothCell, SmoothSpace
from smallgroup.testing.space_contract import SpaceContract
from smallgroup.testing.task_contract import TaskContract
from smallgroup.testing.twin_device import PlacementError, Traffic, TwinDevice

__all__ = [
    "DefinitionContract",
    "MethodContract",
    "PlacementError",
    "SmoothCell",
    "SmoothSpace",
    "SpaceContract",
    "TaskContract",
    "Traffic",
    "TwinDevice",
]
