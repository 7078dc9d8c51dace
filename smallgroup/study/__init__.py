"""Many runs: grids, their store, controls, the tables and figures of the paper."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.study.engines import Engine, LocalEngine, RayEngine, SlurmEngine
    from smallgroup.study.file import Study, open_study, opened
    from smallgroup.study.names import built_in
    from smallgroup.study.plan import Plan, planned
    from smallgroup.study.processes import carry_out_all
    from smallgroup.study.store import Store
    from smallgroup.study.table import Table, tabulated
    from smallgroup.study.whole import StudyResult, carry_out
    from smallgroup.study.work import progress
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engines": ["Engine", "LocalEngine", "RayEngine", "SlurmEngine"],
            "file": ["Study", "open_study", "opened"],
            "names": ["built_in"],
            "plan": ["Plan", "planned"],
            "processes": ["carry_out_all"],
            "store": ["Store"],
            "table": ["Table", "tabulated"],
            "whole": ["StudyResult", "carry_out"],
            "work": ["progress"],
        },
    )

__all__ = [
    "Engine",
    "LocalEngine",
    "Plan",
    "RayEngine",
    "SlurmEngine",
    "Store",
    "Study",
    "StudyResult",
    "Table",
    "built_in",
    "carry_out",
    "carry_out_all",
    "open_study",
    "opened",
    "planned",
    "progress",
    "tabulated",
]
