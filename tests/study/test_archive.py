"""Archives of finished searches: there and back, merged, and from somebody who means no good."""

import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from smallgroup.runner.lock import locked
from smallgroup.runtime.files import NotRegularError
from smallgroup.spaces.genotypes import Origin, from_plain, write
from smallgroup.study import Plan, Store, open_study, planned
from smallgroup.study import archive as archives
from smallgroup.study.archive import Packed, main, pack, read_archive, unpack
from smallgroup.study.plan import PlannedRun
from tests.study.hand_made import CELL, searched
from tests.study.test_table import STUDY


def finish(store: Store, run: PlannedRun) -> None:
    """Leave the files of a finished search, and some that no table needs."""
    config, place = run.config, store.place(run)
    place.mkdir(parents=True)
    result = searched([9.0] * len(config.learners))
    own = replace(
        result,
        seed=config.seed,
        dataset=config.data.dataset,
        lam=config.lam,
        hypergradient=config.search.hypergradient,
    )
    (place / "config.yaml").write_text(config.to_yaml())
    (place / "metrics.jsonl").write_text('{"epoch": 0, "learner": 0}\n')
    (place / "architectures.json").write_text('{"schema": 1, "learners": []}')
    write(place / "genotype.json", from_plain("nas-bench-201", CELL), Origin("darts", "digits", config.seed))
    (place / "checkpoints").mkdir()
    (place / "checkpoints" / "weights").write_bytes(b"large")
    (place / "result.json").write_text(json.dumps(own.to_dict()))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**STUDY, "seeds": [1, 2]}))
    return planned(*open_study(str(file)))


def done(plan: Plan, store: Store) -> int:
    return sum(store.state(run) == "done" for run in plan.runs)


@pytest.mark.parametrize("key", ["space", "method"])
def test_searches_of_plugins_that_are_not_imported_are_kept(key: str, plan: Plan, tmp_path: Path) -> None:
    """Their cells cannot be read, but they are finished: they are packed, and never written over."""
    here, archive = Store(tmp_path / "here"), tmp_path / "runs.tar.xz"
    first, *_ = plan.runs
    finish(here, first)
    result = here.place(first) / "result.json"
    own = {**json.loads(result.read_text()), key: "of-a-plugin", "genotype": "its own notation"}
    result.write_text(json.dumps(own))
    assert pack(here.root, archive) == Packed(added=1, known=0, unfinished=0, total=1)
    result.write_text(json.dumps({**own, "seed": 77}))
    assert unpack(archive, here.root) == (0, 1)
    assert json.loads(result.read_text())["seed"] == 77


def test_a_study_goes_on_from_an_archive(plan: Plan, tmp_path: Path) -> None:
    """What was finished is done there, what was not is still to do, and the archive grows."""
    here, archive = Store(tmp_path / "here"), tmp_path / "runs.tar.xz"
    first, second, third, fourth = plan.runs
    for run in (first, second):
        finish(here, run)
    here.place(third).mkdir(parents=True)
    (here.place(third) / "metrics.jsonl").write_text("{}")
    assert pack(here.root, archive) == Packed(added=2, known=0, unfinished=1, total=2)
    assert {*read_archive(archive)[first.key]} == {
        "architectures.json",
        "config.yaml",
        "genotype.json",
        "metrics.jsonl",
        "result.json",
    }
    there = Store(tmp_path / "there")
    assert unpack(archive, there.root) == (2, 0)
    assert done(plan, there) == 2
    for name in ("metrics.jsonl", "result.json"):
        assert (there.place(first) / name).read_bytes() == (here.place(first) / name).read_bytes()
    assert not (there.place(first) / "checkpoints").exists()
    for run in (third, fourth):
        finish(there, run)
    assert pack(there.root, archive) == Packed(added=2, known=2, unfinished=0, total=4)
    assert unpack(archive, here.root) == (2, 2)  # the unfinished one is finished now
    assert done(plan, Store(here.root)) == 4


def test_the_same_searches_give_the_same_bytes(plan: Plan, tmp_path: Path) -> None:
    """In whatever order they came."""
    made = []
    for name, order in (("one", plan.runs), ("two", plan.runs[::-1])):
        store, archive = Store(tmp_path / name), tmp_path / f"{name}.tar.xz"
        for run in order:
            finish(store, run)
            pack(store.root, archive)
        made.append(archive.read_bytes())
    assert made[0] == made[1]


def test_what_is_there_stays_as_it_is(plan: Plan, tmp_path: Path) -> None:
    here, there, archive = Store(tmp_path / "here"), Store(tmp_path / "there"), tmp_path / "runs.tar.xz"
    run = plan.runs[0]
    for store in (here, there):
        finish(store, run)
    (there.place(run) / "metrics.jsonl").write_text("mine\n")
    pack(here.root, archive)
    before = archive.read_bytes()
    assert unpack(archive, there.root) == (0, 1)
    assert (there.place(run) / "metrics.jsonl").read_text() == "mine\n"
    assert pack(there.root, archive) == Packed(added=0, known=1, unfinished=0, total=1)
    assert archive.read_bytes() == before


def test_a_search_that_somebody_works_on_is_left_alone(plan: Plan, tmp_path: Path) -> None:
    here, there, archive = Store(tmp_path / "here"), Store(tmp_path / "there"), tmp_path / "runs.tar.xz"
    for run in plan.runs[:2]:
        finish(here, run)
    pack(here.root, archive)
    finish(there, plan.runs[2])  # so that it is a folder of studies
    with locked(there.folder(plan.runs[0])):
        assert unpack(archive, there.root) == (1, 1)
    assert not there.place(plan.runs[0]).exists()


def test_of_one_study_alone(plan: Plan, tmp_path: Path) -> None:
    store, archive = Store(tmp_path / "here"), tmp_path / "runs.tar.xz"
    for run in plan.runs:
        finish(store, run)
    file = tmp_path / "less.yaml"
    file.write_text(yaml.safe_dump({**STUDY, "seeds": [2]}))
    assert pack(store.root, archive, [str(file)]).total == 2
    assert {*read_archive(archive)} == {run.key for run in planned(*open_study(str(file))).runs}


def test_the_command(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, archive = Store(tmp_path / "here"), tmp_path / "runs.tar.xz"
    finish(store, plan.runs[0])
    main(["pack", str(store.root), str(archive)])
    assert "has 1 searches: 1 were added, 0 were there already; 0 in " in capsys.readouterr().out
    main(["unpack", str(archive), str(tmp_path / "there")])
    assert "has 1 more finished searches; 0 were there already" in capsys.readouterr().out
    archive.write_bytes(b"no archive")
    with pytest.raises(SystemExit, match="must be a tar file compressed by xz"):
        main(["unpack", str(archive), str(tmp_path / "there")])


KEY = "0123456789abcdef"
WHOLE = [f"runs/{KEY}/search/{name}" for name in ("config.yaml", "genotype.json", "result.json")]


def made_of(members: Iterable[tarfile.TarInfo], path: Path) -> Path:
    out = io.BytesIO()
    with lzma.open(out, "wb") as compressed, tarfile.open(fileobj=compressed, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    path.write_bytes(out.getvalue())
    return path


def regular(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = 3
    return member


def special(kind: bytes, name: str = f"runs/{KEY}/search/metrics.jsonl") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


HOSTILE: dict[str, Callable[[], tarfile.TarInfo]] = {
    "upwards": lambda: regular("../evil"),
    "upwards within a run": lambda: regular(f"runs/{KEY}/search/../../../../evil"),
    "absolute": lambda: regular("/tmp/evil"),
    "beside the runs": lambda: regular("table.md"),
    "no key": lambda: regular("runs/../search/result.json"),
    "another file": lambda: regular(f"runs/{KEY}/search/.lock"),
    "a checkpoint": lambda: regular(f"runs/{KEY}/search/checkpoints/manifest.json"),
    "a line end": lambda: regular(f"runs/{KEY}/search/result.json\n"),
    "link": lambda: special(tarfile.SYMTYPE),
    "hard link": lambda: special(tarfile.LNKTYPE),
    "link in place of a run": lambda: special(tarfile.SYMTYPE, f"runs/{KEY}"),
    "folder": lambda: special(tarfile.DIRTYPE, f"runs/{KEY}/search"),
    "pipe": lambda: special(tarfile.FIFOTYPE),
    "device": lambda: special(tarfile.CHRTYPE),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_archive_with_anything_else_is_refused(kind: str, tmp_path: Path) -> None:
    """Before anything is written, even of what is good in it."""
    archive = made_of([*map(regular, WHOLE), HOSTILE[kind]()], tmp_path / "runs.tar.xz")
    with pytest.raises(ValueError, match="regular files of searches alone"):
        unpack(archive, tmp_path / "studies")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.tar.xz"]


def test_an_archive_without_the_hostile_member_is_taken(tmp_path: Path) -> None:
    """So that it is that member which is refused above."""
    assert {*read_archive(made_of(map(regular, WHOLE), tmp_path / "runs.tar.xz"))} == {KEY}


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    archive = made_of(map(regular, [*WHOLE, WHOLE[0]]), tmp_path / "runs.tar.xz")
    with pytest.raises(ValueError, match="every file once"):
        unpack(archive, tmp_path / "studies")


@pytest.mark.parametrize("missing", range(3))
def test_an_unfinished_search_is_refused(missing: int, tmp_path: Path) -> None:
    archive = made_of(map(regular, [name for i, name in enumerate(WHOLE) if i != missing]), tmp_path / "runs.tar.xz")
    with pytest.raises(ValueError, match=f"has no {WHOLE[missing].rpartition('/')[2]}"):
        unpack(archive, tmp_path / "studies")


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_LARGEST", 1_000)
    with pytest.raises(ValueError, match="at most 1,000 bytes unpacked"):
        read_archive(made_of(map(regular, WHOLE), tmp_path / "runs.tar.xz"))


@pytest.mark.parametrize("link", ["runs", f"runs/{KEY}", f"runs/{KEY}/search"])
def test_links_in_the_folder_are_not_followed(link: str, tmp_path: Path) -> None:
    archive, elsewhere = made_of(map(regular, WHOLE), tmp_path / "runs.tar.xz"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / "studies" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    (tmp_path / "studies" / "mine" / "workers").mkdir(parents=True)  # so that it is a folder of studies
    with pytest.raises(NotRegularError, match="it is a link"):
        unpack(archive, tmp_path / "studies")
    assert [*elsewhere.iterdir()] == []


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    archive = made_of(map(regular, WHOLE), tmp_path / "runs.tar.xz")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    with pytest.raises(ValueError, match="holds other files"):
        unpack(archive, tmp_path / "photos")
