"""Contracts as test classes: inherit one, say what to test, and run pytest (which has to be installed).

    from smallgroup.testing import MethodContract

    class TestMine(MethodContract):
        def method(self):
            return MyMethod()

The built-in methods, spaces and tasks run through the same classes.
"""

from smallgroup.testing.definition_contract import DefinitionContract
from smallgroup.testing.method_contract import MethodContract
from smallgroup.testing.smooth import SmoothCell, SmoothSpace
from smallgroup.testing.space_contract import SpaceContract
from smallgroup.testing.task_contract import TaskContract

__all__ = ["DefinitionContract", "MethodContract", "SmoothCell", "SmoothSpace", "SpaceContract", "TaskContract"]
