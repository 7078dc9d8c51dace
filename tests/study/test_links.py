"""Links inside the folder of a study: writing and removing do not follow them."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from smallgroup.runtime.files import NotRegularError
from smallgroup.study import Plan, Store, open_study, planned
from smallgroup.study.folder import FAILED
from smallgroup.study.work import work
from tests.reliability.runs import Captured, refused
from tests.study.test_plan import TINY

TO_RUNS = ["runs", "runs/KEY", "runs/KEY/search"]


@dataclass(frozen=True)
class Linked:
    """A study, and the folder in its store that is a link."""

    file: Path
    plan: Plan
    store: Store
    link: Path

    def everything(self) -> dict[Path, tuple[int, int]]:
        """All files of the test, and when they were written."""
        found = {path: path.lstat() for path in self.file.parent.rglob("*") if path.name != ".lock"}
        return {path: (about.st_mtime_ns, about.st_ino) for path, about in found.items()}


@pytest.fixture
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> Linked:
    """All runs of the study have failed, and one folder of it is elsewhere."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(TINY))
    plan, store = planned(*open_study(str(file))), Store(tmp_path / "studies")
    for run in plan.runs:
        store.place(run).mkdir(parents=True)
        store.record_failure(run, "it broke")
    (store.root / "mine" / "workers").mkdir(parents=True)
    link = store.root / str(request.param).replace("KEY", plan.runs[0].key)
    shutil.move(link, tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    return Linked(file, plan, store, link)


@pytest.mark.parametrize("linked", [*TO_RUNS, "mine", "mine/workers"], indirect=True)
@pytest.mark.parametrize("words", [[], ["--retry"]])
def test_a_folder_inside_a_study_may_not_be_a_link(words: list[str], linked: Linked, capsys: Captured) -> None:
    before = linked.everything()
    said = refused(capsys, "study", str(linked.file), "--out", str(linked.store.root), *words)
    assert f"{linked.link} must be a folder of the study itself, but it is a link" in said
    assert linked.everything() == before


@pytest.mark.parametrize("linked", TO_RUNS, indirect=True)
def test_a_record_of_a_failure_is_not_written_or_removed_elsewhere(linked: Linked) -> None:
    before, run = linked.everything(), linked.plan.runs[0]
    changes: list[Callable[[], None]] = [
        lambda: linked.store.record_failure(run, "again"),
        lambda: linked.store.forget_failure(run),
    ]
    for change in changes:
        with pytest.raises(NotRegularError, match="it is a link"):
            change()
    assert linked.everything() == before


@pytest.mark.parametrize("linked", TO_RUNS, indirect=True)
def test_a_worker_begins_no_run_elsewhere(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been started before the link was made."""
    monkeypatch.setattr("smallgroup.study.work.carry_out", lambda *_: pytest.fail("a run is carried out"))
    run = linked.plan.runs[0]
    (linked.store.folder(run) / FAILED).unlink()
    before = linked.everything()
    with pytest.raises(RuntimeError, match=r"1 runs cannot start, .* it is a link"):
        work([run], linked.store)
    assert linked.everything() == before


@pytest.mark.parametrize("linked", ["."], indirect=True)
def test_the_folder_of_studies_itself_may_be_a_link(linked: Linked) -> None:
    linked.store.check_links(linked.plan)
    linked.store.forget_failure(linked.plan.runs[0])
    assert linked.store.state(linked.plan.runs[0]) == "waiting"
