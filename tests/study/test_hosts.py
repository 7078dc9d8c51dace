"""A study on two hosts that share its folder, on a file system without `flock`."""

import json
import time
from pathlib import Path

import pytest

from smallgroup.study import Store
from smallgroup.study.work import work
from tests.runner.two_hosts import can_be_two, start
from tests.study.test_work import contents, tiny

WORKER = """
import errno, fcntl, sys
from pathlib import Path
from smallgroup.runner import owner
from smallgroup.study import Store, planned
from smallgroup.study.file import Study
from smallgroup.study.work import work

def flock(*_):
    raise OSError(errno.ENOLCK, "no locks")

fcntl.flock, owner.BEAT, owner.STALE = flock, 0.3, 4.0
folder = Path(sys.argv[1])
plan = planned("tiny", Study.model_validate_json((folder / "study.json").read_text()))
work(plan.runs, Store(folder / "store"), lambda run: print(run.key, flush=True))
"""


@pytest.mark.slow  # three processes that load torch
@pytest.mark.skipif(not can_be_two(), reason="this machine lets no user make namespaces")
def test_two_hosts_share_a_study_and_one_takes_over_what_the_other_left(tmp_path: Path) -> None:
    plan = tiny(seeds=[1, 2], over={"search": {"epochs": 6, "steps_per_epoch": 10}})  # so that they are seen at work
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "study.json").write_text(plan.study.model_dump_json())
    store, here = Store(folder / "store"), Store(tmp_path / "one")
    first = start("alpha", folder, WORKER)
    assert first.stdout is not None
    begun = first.stdout.readline().strip()
    second = start("beta", folder, WORKER)
    lost = next(run for run in plan.runs if run.key == begun)
    while not list(store.place(lost).glob("checkpoints/0*")):
        time.sleep(0.05)
    first.kill()
    said, _ = first.communicate(timeout=60)
    owner = json.loads((store.folder(lost) / ".owner").read_text())
    assert owner["host"] == "alpha"
    others, errors = second.communicate(timeout=600)
    assert second.returncode == 0, errors
    assert sorted({begun, *said.split(), *others.split()}) == sorted(run.key for run in plan.runs)
    assert begun in others.split()  # taken over
    assert len(others.split()) == len(set(others.split()))
    work(plan.runs, here)
    found = [{key: one[:2] for key, one in contents(each, plan).items()} for each in (store, here)]
    assert found[0] == found[1]
