"""A real Ray on this machine, in a network of its own: it listens on all interfaces."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from smallgroup.study import RayEngine, Store, tabulated
from smallgroup.study.work import work
from tests.study.test_work import contents, tiny
from tests.tools.ranks import LOOPBACK_ONLY, ROOT

ALONE = subprocess.run([*LOOPBACK_ONLY, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow  # Ray and six processes that load torch
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.skipif(not ALONE, reason="no network namespace can be made here, and Ray would be open to others")
def test_two_workers_of_ray_one_killed_nothing_lost_and_the_same_table(tmp_path: Path) -> None:
    plan = tiny(seeds=[1], over={"search": {"epochs": 8, "steps_per_epoch": 10}})  # so that they are seen at work
    study = tmp_path / "study.json"
    study.write_text(plan.study.model_dump_json())
    there, here = Store(tmp_path / "ray"), Store(tmp_path / "one")
    command = [*LOOPBACK_ONLY, sys.executable, "-m", "tests.study.engines.by_ray", str(there.root), str(study)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment |= {"RAY_TMPDIR": "/tmp", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    said, values = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert said["interrupted"]
    assert len(said["killed"]) == 2
    assert set(said["states"].values()) == {"done"}
    work(plan.runs, here)
    # Where a killed run saved before depends on when it was killed.
    found = [{key: one[:2] for key, one in contents(store, plan).items()} for store in (there, here)]
    assert found[0] == found[1]
    rows = tabulated(plan, here).rows
    table = [{name: {str(k): v for k, v in e.values.items()} for name, e in row.entries.items()} for row in rows]
    for one in (*table, *values):
        one.pop("seconds", None)
    assert table == values
    assert not list((there.root / "tiny" / "workers").glob("*.run"))


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smallgroup.study.engines.on_ray.find_spec", lambda _: None)
    with pytest.raises(
        ValueError, match=r"needs the package ray, which is not installed: pip install 'smallgroup\[ray\]'"
    ):
        RayEngine().check()
