"""The report of a run: one self-contained page, drawings and figures. Given data; it knows no study and no config."""

from smallgroup.report.page import page
from smallgroup.report.run import CountedNetwork, Given, Run, SearchSteps, read_run

__all__ = ["CountedNetwork", "Given", "Run", "SearchSteps", "page", "read_run"]
