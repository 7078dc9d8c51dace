"""The report of a run: one self-contained page, drawings and figures. Given data; it knows no study and no config."""

from smallgroup.report.page import page
from smallgroup.report.run import Given, Run, Size, read_run

__all__ = ["Given", "Run", "Size", "page", "read_run"]
