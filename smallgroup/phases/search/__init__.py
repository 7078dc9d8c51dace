"""The search phase: learners teach one another while their architectures follow the validation loss."""

from smallgroup.phases.search.config import SearchConfig
from smallgroup.phases.search.job import SearchJob

__all__ = ["SearchConfig", "SearchJob"]
