"""Data that a Python program has given to the job that is under way, found by the name that its config has."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from smallgroup.data.errors import DataError

if TYPE_CHECKING:
    from smallgroup.data.own import OwnData

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
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


def takes_data(job: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Make a job find the data that it is given as `data`, which may be labeled images alone."""

    @wraps(job)
    def carried_out(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        from smallgroup.data.own import as_own_data  # noqa: PLC0415 -- it loads torch

        data = as_own_data(kwargs.get("data"))  # type: ignore[arg-type]
        with giving(data):
            return job(*args, **{**kwargs, "data": data})  # type: ignore[arg-type]

    return carried_out


def given_data(reference: str) -> "OwnData":
    """Return the data that a config refers to, or refuse: their images cannot be found by name."""
    data = _GIVEN.get()
    if data is None:
        raise DataError(
            f"the images of {reference} come from Python and must be passed again: call smallgroup.search, train "
            f"or run "
            "with data=..."
        )
    if reference not in (data.reference, data.unlabeled_reference):
        raise DataError(f"a run on {reference} needs the same data again, but got {data.reference}")
    return data
