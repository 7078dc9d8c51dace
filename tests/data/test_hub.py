"""Datasets of Hugging Face, from folders that its library has saved: no network, and no code of a dataset."""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from PIL import Image

from smallgroup.cli import main
from smallgroup.data import DataConfig, DataError, examine, open_dataset, open_search_data, open_unlabeled
from smallgroup.data import hub as module
from tests.data.makers import noise, write_pickle
from tests.pipeline.test_pipeline import Captured

CLASSES = ["ants", "bees"]
FEATURES = {"pixels": datasets.Image(), "note": datasets.Value("string"), "kind": datasets.ClassLabel(names=CLASSES)}


def picture(number: int, width: int = 12) -> Image.Image:
    return Image.fromarray(noise(8, width, 3, key=number).numpy())


def rows(count: int, first: int = 0, features: dict[str, Any] = FEATURES, **columns: Any) -> Any:
    numbers = range(first, first + count)
    values = {
        "pixels": [picture(n) for n in numbers],
        "note": ["x"] * count,
        "kind": [n % 2 for n in numbers],
        **columns,
    }
    kept = {name: values[name] for name in features}
    return datasets.Dataset.from_dict(kept, features=datasets.Features(features))


def saved(folder: Path, **splits: Any) -> str:
    datasets.DatasetDict(splits).save_to_disk(folder)
    return f"hf:{folder}"


@pytest.fixture(autouse=True)
def _quiet() -> None:
    datasets.disable_progress_bars()


def test_a_saved_dataset_with_a_test_split(tmp_path: Path) -> None:
    name = saved(tmp_path / "d", train=rows(20), test=rows(6, 100), validation=rows(4, 200))
    data = open_dataset(name, tmp_path)
    assert (data.name, data.classes, data.size, data.channels) == (name, ("ants", "bees"), 8, 3)
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (20, 6)
    assert data.labels().tolist() == [0, 1] * 10
    square = noise(8, 12, 3, key=3).permute(2, 0, 1)[:, :, 2:10]
    assert torch.equal(data.train.fetch(torch.tensor([3]))[0], square)
    assert data.notes == (f"{name} has test and validation: test is the test part and validation is not used",)
    assert open_dataset(name, tmp_path, size=5).train.fetch(torch.tensor([0])).shape == (1, 3, 5, 5)


def test_a_single_split_has_a_fifth_set_aside(tmp_path: Path) -> None:
    rows(40).save_to_disk(tmp_path / "d")
    data = open_dataset(f"hf:{tmp_path / 'd'}", tmp_path)
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (32, 8)


def test_validation_is_the_test_part_where_there_is_no_other(tmp_path: Path) -> None:
    data = open_dataset(saved(tmp_path / "d", train=rows(20), validation=rows(4, 200)), tmp_path)
    assert data.test is not None
    assert (len(data.test), data.notes) == (4, ())


def test_it_is_read_once_and_again_when_it_was_saved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = saved(tmp_path / "d", train=rows(20), test=rows(6, 100))
    read, own = [], module.Hub._read

    def counted(source: module.Hub, parts: list[Any]) -> Any:
        read.append(1)
        return own(source, parts)

    monkeypatch.setattr(module.Hub, "_read", counted)
    first = open_dataset(name, tmp_path)
    assert open_dataset(name, tmp_path).digest == first.digest
    assert len(read) == 1
    saved(tmp_path / "d", train=rows(20, 40), test=rows(6, 100))
    assert open_dataset(name, tmp_path).digest != first.digest
    assert len(read) == 2


def test_it_is_unlabeled_data_too_and_needs_no_labels_for_that(tmp_path: Path) -> None:
    labeled = saved(tmp_path / "labeled", train=rows(40), test=rows(6, 100))
    bare = saved(tmp_path / "bare", train=rows(10, 300, {"pixels": datasets.Image()}))
    data = open_search_data(DataConfig(dataset=labeled, unlabeled=bare), seed=0)
    assert (len(data.unlabeled), data.unlabeled.labels) == (10, None)
    assert data.unlabeled.fetch(torch.tensor([0])).shape == (1, 3, 8, 8)
    digits = open_dataset("digits", tmp_path)
    assert open_unlabeled(labeled, tmp_path, digits).fetch(torch.tensor([39])).shape == (1, 1, 8, 8)


def refusals(folder: Path) -> dict[str, Callable[[], str]]:
    image, label = datasets.Image(), datasets.ClassLabel(names=CLASSES)
    number = {"kind": datasets.Value("int64")}
    return {
        r"must have one column of type Image, but it has none": lambda: saved(
            folder, train=rows(4, features={"kind": label})
        ),
        r"must have one column of type ClassLabel, but it has none": lambda: saved(
            folder, train=rows(4, features={"pixels": image, **number})
        ),
        r"must have one column of type ClassLabel, but it has kind, more": lambda: saved(
            folder, train=rows(4, features={"pixels": image, "kind": label, "more": label}, more=[0] * 4)
        ),
        r"must have a split train, but it has test": lambda: saved(folder, test=rows(4)),
        r"d: labels of train must be from 0 to 49,999, but one is -1": lambda: saved(
            folder, train=rows(4, kind=[0, 1, -1, 0])
        ),
        r"d: image 2 of train must be an array or an image .*NoneType": lambda: saved(
            folder, train=rows(4, pixels=[picture(1), picture(2), None, picture(3)])
        ),
    }


@pytest.mark.parametrize("words", refusals(Path()))
def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path: Path, words: str) -> None:
    name = refusals(tmp_path / "d")[words]()
    with pytest.raises(DataError, match=words) as caught:
        open_dataset(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"hf:{tmp_path}")


@pytest.mark.parametrize("name", ["pandas", "mnist", "a/b/c", "/nowhere/x", "../a", "a/b.py", "a b/c", "a\0b/c"])
def test_names_that_are_neither_of_the_hub_nor_a_saved_folder(name: str) -> None:
    with pytest.raises(DataError, match="'hf:NAME' must be OWNER/NAME on the Hugging Face Hub, or a folder"):
        open_dataset(f"hf:{name}", Path())


def test_scripts_are_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a script as the library once ran it, by its path and as if it were a name of the Hub."""
    (tmp_path / "own" / "script").mkdir(parents=True)
    mark = tmp_path / "ran"
    (tmp_path / "own" / "script" / "script.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    for name in ("own/script", str(tmp_path / "own" / "script")):
        with pytest.raises(DataError, match=r"must be (a folder that the library|OWNER/NAME)"):
            open_dataset(f"hf:{name}", tmp_path)
    # And where our own check is left out, by the library.
    monkeypatch.setattr(module.Hub, "require", lambda *_: None)
    with pytest.raises(DataError, match=r"hf:own/script cannot be loaded: Dataset scripts are no longer supported"):
        open_dataset("hf:own/script", tmp_path)
    assert not mark.exists()


@pytest.mark.filterwarnings("ignore:The Pandas builder:FutureWarning")
def test_the_library_reads_no_pickle(tmp_path: Path) -> None:
    """From the lowest version on that is accepted; before, its reader for files of pandas ran what was in them."""

    class Payload:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    write_pickle(tmp_path / "data.pkl", Payload())
    with pytest.raises(Exception, match=r"[Pp]ickle|pandas"):
        datasets.load_dataset("pandas", data_files=str(tmp_path / "data.pkl"), cache_dir=str(tmp_path / "cache"))
    assert not (tmp_path / "ran").exists()


def test_the_library_is_never_told_to_trust_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def load(*args: Any, **kwargs: Any) -> Any:
        given.append((args, kwargs))
        return {"train": rows(20)}

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(open_dataset("hf:someone/something", Path()).classes) == 2
    assert given == [(("someone/something",), {})]


def test_errors_of_the_library_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def load(*_: Any) -> Any:
        raise ConnectionError("Couldn't reach the Hub\nor anything else")

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert main(["search", "--dataset", "hf:someone/something"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: hf:someone/something cannot be loaded: Couldn't reach the Hub")


@pytest.mark.parametrize("found", [None, "3.6.0"])
def test_without_the_extra_a_line_says_how_to_install_it(
    tmp_path: Path, found: str | None, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    name = saved(tmp_path / "d", train=rows(4))

    def version(_: str) -> str:
        if found is None:
            raise importlib.metadata.PackageNotFoundError("datasets")
        return found

    monkeypatch.setattr(module, "version", version)
    assert main(["search", "--dataset", name]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"error: {name} needs ")
    assert error.endswith("pip install 'smallgroup[hub]'\n")
    assert ("datasets 5.2 or newer" in error) == (found is not None)


def test_doctor_looks_at_it(tmp_path: Path) -> None:
    name = saved(tmp_path / "d", train=rows(20), test=rows(6, 100))
    (finding,) = examine(tmp_path, (name,))
    assert (finding.what, finding.where, finding.status) == (name, str(tmp_path / "d"), "ok")
    assert finding.sentence.startswith("20 training and 6 test images of 2 classes, 8 x 8 x 3")
