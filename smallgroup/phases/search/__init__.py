"""The search phase: learners teach one another while their architectures follow the validation loss."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.phases.search.config import SearchConfig
    from smallgroup.phases.search.job import SearchJob
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "config": ["SearchConfig"],
            "job": ["SearchJob"],
        },
    )

__all__ = ["SearchConfig", "SearchJob"]
