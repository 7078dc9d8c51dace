"""The report of a run: one self-contained page, drawings and figures. Given data; it knows no study and no config."""

from smallgroup.report.page import page
from smallgroup.report.run import Given, Run, Size, Steps, read_run

__all__ = ["Given", "Run", "Size", "Steps", "page", "read_run"]
