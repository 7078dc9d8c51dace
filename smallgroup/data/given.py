"""Data that a Python program has given to the job that is under way, found by the name that its config has."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from smallgroup.data.errors import DataError

if TYPE_CHECKING:
    from smallgroup.data.own import OwnData

_GIVEN: ContextVar["OwnData | None"] = ContextVar("own data", default=None)


@contextmanager
def giving(data: "OwnData | None") -> Iterator[None]:
    """Let jobs find data by their reference; None changes nothing."""
    if data is None:
        yield
        return
    token = _GIVEN.set(data)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def given_data(reference: str) -> "OwnData":
    """Return the data that a config refers to, or refuse: their images cannot be found by name."""
    data = _GIVEN.get()
    if data is None:
        raise DataError(
            f"the images of {reference} are a Python program's, so that only Python can give them again: "
            "smallgroup.search, smallgroup.train or smallgroup.run with data=..."
        )
    if reference not in (data.reference, data.unlabeled_reference):
        raise DataError(f"a run on {reference} must be given these data again, but got {data.reference}")
    return data
