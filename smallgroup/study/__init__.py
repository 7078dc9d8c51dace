"""Many runs: grids, their store, controls, the tables and figures of the paper."""

from smallgroup.study.file import Study, built_in, open_study
from smallgroup.study.plan import Plan, planned
from smallgroup.study.processes import carry_out_all
from smallgroup.study.store import Store
from smallgroup.study.table import Table, tabulated
from smallgroup.study.work import progress

__all__ = [
    "Plan",
    "Store",
    "Study",
    "Table",
    "built_in",
    "carry_out_all",
    "open_study",
    "planned",
    "progress",
    "tabulated",
]
