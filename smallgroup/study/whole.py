"""A whole study: its runs, its table, and the files of both."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smallgroup.runtime.files import write_whole
from smallgroup.study.engines import Engine
from smallgroup.study.figures import draw
from smallgroup.study.footer import footer
from smallgroup.study.formats import comma_separated, latex, markdown
from smallgroup.study.plan import Plan
from smallgroup.study.processes import carry_out_all
from smallgroup.study.store import Store
from smallgroup.study.table import Entry, Table, Verdict, check_measurable, tabulated
from smallgroup.study.work import StudyProgress


@dataclass(frozen=True)
class StudyResult:
    """The table of a study, and how many of its runs failed."""

    plan: Plan
    table: Table
    files: tuple[Path, ...]
    """The table in every format, and the figures."""
    failed: int
    """Runs that failed; the table leaves them out and says so."""

    def to_dict(self) -> dict[str, Any]:
        """Return the table as `--json` prints it."""
        return as_dict(self.plan, self.table)


def carry_out(
    plan: Plan,
    out: Path,
    *,
    workers: int = 1,
    retry: bool = False,
    watch: Callable[[StudyProgress], None] | None = None,
    engine: Engine | None = None,
) -> StudyResult:
    """Run what is not done yet, and write the table and the figures.

    Args:
        plan: of `planned(*opened(name))`.
        out: where runs and tables are kept; studies may share it.
        workers: processes, tasks of an array job or of Ray, of one thread each.
        retry: try runs again that failed before.
        watch: called with the progress of the study.
        engine: starts the workers; None: `LocalEngine()`.
    """
    check_measurable(plan)
    store = Store(out)
    if retry:
        store.check_links(plan)
        for each in plan.runs:
            store.forget_failure(each)
    carry_out_all(plan, store, workers, watch, engine)
    table = tabulated(plan, store, footer(plan, store))
    files = write_tables(plan, table, store, out / plan.name)
    return StudyResult(plan, table, tuple(files), sum(store.state(each) == "failed" for each in plan.runs))


def write_tables(plan: Plan, table: Table, store: Store, folder: Path) -> list[Path]:
    """Write the table in every format, and the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"table.md": markdown(table), "values.csv": comma_separated(table), "table.tex": latex(table)}
    texts["table.json"] = json.dumps(as_dict(plan, table), indent=2) + "\n"
    for name, text in texts.items():
        write_whole(folder / name, text)
    made = [folder / name for name in texts]
    for number, figure in enumerate(plan.study.figures):
        made += draw(plan, table, store, figure, folder / f"figure-{number}-{figure.kind}")
    return made


def as_dict(plan: Plan, table: Table) -> dict[str, Any]:
    """Return a table as `--json` prints it."""
    rows = [
        {
            "name": row.name,
            "wanted": row.wanted,
            "failed": list(row.failed),
            "measures": {name: _plain(entry) for name, entry in row.entries.items()},
            "all_learners": _plain(row.all_learners),
        }
        for row in table.rows
    ]
    verdicts = [
        {
            "says": verdict.claim.says,
            "measure": verdict.measure,
            "at": dict(verdict.point),
            "holds": verdict.holds,
            "answer": verdict.answer,
            "comparisons": {
                name: None
                if found is None
                else {
                    **asdict(found),
                    "adjusted_p": verdict.adjusted[name],
                    "smallest_adjusted_p": verdict.possible[name],
                    **_equivalence(verdict, name),
                }
                for name, found in verdict.comparisons.items()
            },
        }
        for verdict in table.verdicts
    ]
    footer_ = list(table.footer)
    return {
        "study": plan.name,
        "title": table.title,
        "primary": table.primary,
        "rows": rows,
        "claims": verdicts,
        "footer": footer_,
    }


def _equivalence(verdict: Verdict, name: str) -> dict[str, Any]:
    """Return the equivalence test of a claim with a margin."""
    found = verdict.equivalences.get(name)
    if found is None:
        return {}
    plain = {**asdict(found), "adjusted_p": verdict.adjusted_equivalences[name]}
    return {"equivalence": plain, "side": verdict.side(name)}


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        "values": {str(seed): value for seed, value in entry.values.items()},
        "theirs": entry.theirs,
        "retrainings": {str(seed): list(values) for seed, values in entry.retrained.items()},
        "over_retrainings": entry.over_retrainings,
        **({} if entry.summary is None else asdict(entry.summary)),
    }
