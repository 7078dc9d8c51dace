"""Contracts as test classes: inherit one, say what to test, and run pytest (which has to be installed).

    from smallgroup.testing import MethodContract

    class TestMine(MethodContract):
        def method(self):
            return MyMethod()

The built-in methods and spaces run through the same classes.
"""

from smallgroup.testing.definition_contract import DefinitionContract
from smallgroup.testing.method_contract import MethodContract
from smallgroup.testing.smooth import SmoothCell, SmoothSpace
from smallgroup.testing.space_contract import SpaceContract

__all__ = ["DefinitionContract", "MethodContract", "SmoothCell", "SmoothSpace", "SpaceContract"]
