"""Where a run may be: a folder of other files is refused and left as it is, and so is one that is misspelled."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import smallgroup
from smallgroup.places import check_for_run, check_for_seeds, holds_run, nearest_run
from smallgroup.study import Store
from tests.reliability.runs import SEARCH, Captured, refused
from tests.tools.chaos.subjects import CELL, draw_images

COMMANDS = {
    "search": SEARCH,
    "seeds": [*SEARCH, "--seeds=1-2"],
    "run": ["run", *SEARCH[1:]],
    "train": ["train", CELL, "--data-root=nowhere"],
    "mutual": ["mutual", CELL, "--learners=2", "--data-root=nowhere"],
    "study": ["study", "teaching", "--seeds=1"],
}


def everything_in(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """What a user would not like to see a run in."""
    folder = tmp_path / "photos"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "tom.jpg").write_bytes(b"tom")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_of_other_files_is_refused_and_left_as_it_is(command: str, photos: Path, capsys: Captured) -> None:
    before = everything_in(photos)
    resume = [[], ["--resume"]] if command != "study" else [[]]
    for words in resume:
        said = refused(capsys, *COMMANDS[command], "--out", str(photos), *words)
        assert f"a new or empty folder, but {photos} holds other files, such as cats" in said or words
    assert everything_in(photos) == before


@pytest.fixture
def uncomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes long in the beginning of a run fails."""

    def compute(*_: object, **__: object) -> None:
        raise AssertionError("something is computed")

    for name in (
        "api.searching.make_job",
        "api.training.make_training",
        "ranks.canary",
        "fitting.make_job",
        "fitting.make_training",
    ):
        monkeypatch.setattr(f"smallgroup.{name}", compute)


@pytest.mark.usefixtures("uncomputed")
@pytest.mark.parametrize("budget", [[], ["--time-budget=1m"]])
@pytest.mark.parametrize("command", ["search", "run", "train"])
def test_nothing_is_computed_for_a_folder_that_is_refused(
    command: str, budget: list[str], photos: Path, finished: Path, capsys: Captured
) -> None:
    images = draw_images(photos.parent / "images", 30)
    line = [*COMMANDS[command], *budget]
    assert "holds other files, such as cats" in refused(capsys, *line, "--out", str(photos))
    assert f"{finished} must be empty or resumed" in refused(capsys, *line, "--out", str(finished))
    within = [f"--dataset=folder:{images}", "--out", str(images / "run")]
    assert f"every folder in {images} is a class" in refused(capsys, *line, *within)
    assert "something is computed" in refused(capsys, *line, "--out", str(photos.parent / "new"), code=1)


@pytest.mark.usefixtures("uncomputed")
@pytest.mark.parametrize("budget", [[], ["--time-budget=1m"]])
def test_the_same_where_the_folder_of_one_of_several_seeds_is_refused(
    budget: list[str], tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "seeds.yaml").write_text("{}")
    (tmp_path / "seed-2" / "checkpoints").mkdir(parents=True)
    (tmp_path / "seed-2" / "config.yaml").write_text("{}")
    said = refused(capsys, *COMMANDS["seeds"], *budget, "--out", str(tmp_path))
    assert f"{tmp_path / 'seed-2'} must be empty or resumed" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-2", "seeds.yaml"]


def test_the_same_from_python(photos: Path) -> None:
    before = everything_in(photos)
    for resume in (False, True):
        with pytest.raises(ValueError, match="a run needs a new or empty folder"):
            smallgroup.search({"seed": 1}, out=photos, resume=resume)
    assert everything_in(photos) == before


@pytest.mark.parametrize("others", [["config.yaml"], ["metrics.jsonl", "checkpoints"], ["result.json"]])
def test_files_of_other_programs_do_not_make_a_run(others: list[str], photos: Path) -> None:
    for name in others:
        (photos / name).write_text("theirs")
    with pytest.raises(ValueError, match="holds other files"):
        check_for_run(photos)


@pytest.mark.parametrize(
    "left",
    [
        [".lock"],
        [".lock", ".smallgroup-unfinished-0123456789abcdef"],
        [".lock", "metrics.jsonl"],
        ["lost+found", ".DS_Store"],
        [],
    ],
)
def test_what_a_killed_start_or_an_empty_disk_leaves_is_accepted(left: list[str], tmp_path: Path) -> None:
    for name in left:
        (tmp_path / name).touch()
    check_for_run(tmp_path)
    check_for_run(tmp_path / "new")


@pytest.mark.parametrize("gone", [".lock", "config.yaml", "metrics.jsonl", "checkpoints"])
def test_a_run_that_lost_a_file_is_still_one(gone: str, finished: Path) -> None:
    names = {".lock", "config.yaml", "metrics.jsonl", "checkpoints"}
    assert all((finished / name).exists() for name in names)
    here = finished.parent / f"without-{gone}"
    here.mkdir()
    for name in names - {gone}:
        (here / name).symlink_to(finished / name)
    (here / "notes.txt").write_text("of the user")
    assert holds_run(here)


def test_the_log_of_the_process_itself_may_be_in_the_folder(tmp_path: Path) -> None:
    """As with `2> runs/a/log`, or where a cluster writes what its jobs say."""
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(ValueError, match="such as log"):
        check_for_run(tmp_path)
    before = os.dup(2)
    try:
        os.dup2(log, 2)
        check_for_run(tmp_path)
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(log)


def test_searches_of_seeds_and_single_runs_do_not_mix(finished: Path, tmp_path: Path, capsys: Captured) -> None:
    with pytest.raises(ValueError, match="several searches need a folder of their own"):
        check_for_seeds(finished)
    (tmp_path / "seeds.yaml").write_text("{}")
    (tmp_path / "seed-1").mkdir()
    check_for_seeds(tmp_path)
    for words in ([], ["--resume"]):
        said = refused(capsys, *SEARCH, "--out", str(tmp_path), *words)
        assert "holds one search per seed: give its seeds with --seeds, or use another folder" in said


def test_a_store_of_studies_is_known_by_its_runs(tmp_path: Path) -> None:
    made: list[Callable[[Path], object]] = [
        lambda root: (root / "runs" / "0123456789abcdef" / "search").mkdir(parents=True),
        lambda root: (root / "teaching" / "workers").mkdir(parents=True),
    ]
    for number, make in enumerate(made):
        make(root := tmp_path / str(number))
        (root / "README.md").write_text("of the user")
        Store(root).check()
    (tmp_path / "searches" / "runs" / "digits-darts-001").mkdir(parents=True)
    with pytest.raises(ValueError, match="a study needs a new or empty folder"):
        Store(tmp_path / "searches").check()


def begun(folder: Path) -> Path:
    """As much of a run as is looked for."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"seed": 0}))
    return folder


@pytest.mark.parametrize(
    "line",
    [
        ["search"],
        ["search", "--seeds=1-2"],
        ["search", "--on-nonfinite=skip", "--allow-drift", "--data-root=nowhere", "--set=run.threads=1"],
        ["run"],
        ["train", CELL],
        ["mutual", CELL, "--learners=2"],
    ],
)
def test_resume_of_a_folder_that_is_misspelt_begins_nothing(line: list[str], tmp_path: Path, capsys: Captured) -> None:
    right, wrong = begun(tmp_path / "runs" / "paper"), tmp_path / "runs" / "papre"
    begun(tmp_path / "runs" / "other")
    said = refused(capsys, *line, "--resume", "--out", str(wrong))
    assert f"there is no run to resume in {wrong}; the nearest run is in {right}; to begin a new run, say what" in said
    assert not wrong.exists()


def test_the_same_from_python_without_a_config(tmp_path: Path) -> None:
    for call in (smallgroup.search, lambda **options: smallgroup.train(CELL, **options)):
        with pytest.raises(ValueError, match="to begin a new run, give a config"):
            call(out=tmp_path / "misspelt", resume=True)
    assert not (tmp_path / "misspelt").exists()


def test_the_nearest_run_is_looked_for_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert nearest_run(Path("runs/paper")) is None
    begun(Path("runs/paper"))
    (tmp_path / "runs" / "papers").mkdir()
    assert nearest_run(Path("runs/papers")) == nearest_run(Path("run/paper")) == nearest_run(Path("paper"))
    assert nearest_run(Path("paper")) == Path("runs/paper")
    begun(Path("mine"))
    assert nearest_run(Path("nowhere/mine")) == Path("mine")


def test_a_run_among_the_classes_of_its_images_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """It would be a class without images when it is resumed. Beside train/ and val/ there is room."""
    images = draw_images(tmp_path / "images", 30)
    said = refused(capsys, *SEARCH, f"--dataset=folder:{images}", "--out", str(images / "run"))
    assert f"every folder in {images} is a class, but the run's folder {images / 'run'} is in it" in said
    assert not (images / "run").exists()
    whole = tmp_path / "whole"
    whole.mkdir()
    images.rename(whole / "train")
    refused(capsys, *SEARCH, f"--dataset=folder:{whole}", "--out", str(whole / "train" / "run"))
    beside = [f"--dataset=folder:{whole}", "--out", str(whole / "run")]
    said = refused(capsys, *SEARCH, *beside, "--set=search.batch_size.train=10_000")
    assert "is a class" not in said
