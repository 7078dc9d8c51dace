"""The twin device, where this torch has what it needs."""

from collections.abc import Iterator

import pytest

from smallgroup.testing import TwinDevice
from smallgroup.testing.twin_device import missing_from_torch


@pytest.fixture
def twin() -> Iterator[TwinDevice]:
    """A device whose rules hold while the test runs."""
    problem = missing_from_torch()
    if problem is not None:
        pytest.skip(f"there is no twin device: {problem}")
    with TwinDevice() as device:
        yield device
