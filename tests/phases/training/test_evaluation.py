"""`smallgroup.evaluate`: a trained model on labeled images of other data, with `predict` as the oracle."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import smallgroup
from smallgroup.cli import main
from smallgroup.data import DataError
from smallgroup.data.training_data import TrainingData
from smallgroup.display.counting import counted
from smallgroup.phases.training import TrainedModel, TrainResult
from smallgroup.runtime import stream
from smallgroup.runtime.image_spec import ImageSpec
from smallgroup.spaces.nas_bench_201.design import NasBench201Design
from smallgroup.spaces.networks import build_network
from tests.phases.training.models import BENCHMARK

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
Captured = pytest.CaptureFixture[str]
CLASSES = ("a", "b", "c")


def picture(path: Path, number: int) -> None:
    """Noise in color, wider than high."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = torch.randint(0, 256, (9 + number % 3, 14, 3), generator=stream("evaluation", number, path.parent.name))
    Image.fromarray(pixels.numpy().astype(np.uint8)).save(path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A model of three classes for gray images, with a margin; its weights are random and far apart."""
    design = NasBench201Design(images=ImageSpec(3, 1, 8), channels=4, cells_per_stage=1)
    network = build_network(BENCHMARK, design, generator=stream("evaluation"))
    with torch.no_grad():
        network.classifier.weight.mul_(80)
    folder = tmp_path / "run"
    folder.mkdir()
    trained_on = f"folder:{tmp_path / 'own'}"
    TrainedModel(BENCHMARK, design, trained_on, CLASSES, (0.5,), (0.2,), margin=1.2).write(folder, network)
    return folder


def pictures(folder: Path, counts: dict[str, int]) -> None:
    for name, count in counts.items():
        for number in range(count):
            picture(folder / name / f"{number}.png", number)


def test_every_number_follows_from_the_predictions(run: Path, tmp_path: Path, capsys: Captured) -> None:
    pictures(tmp_path / "other", {"c": 9, "a": 4})
    found = smallgroup.evaluate(run, f"folder:{tmp_path / 'other'}")
    confusion = np.zeros((3, 3), int)
    bins: dict[int, list[tuple[float, bool]]] = {}
    losses, probabilities = [], []
    for name in ("a", "c"):
        for prediction in smallgroup.predict(run, tmp_path / "other" / name, top=3):
            confusion[CLASSES.index(name), CLASSES.index(prediction.class_name)] += 1
            probabilities.append(prediction.probability)
            pair = (prediction.probability, prediction.class_name == name)
            bins.setdefault(int(np.ceil(15 * prediction.probability)), []).append(pair)
            losses += [-np.log(guess.probability) for guess in prediction.guesses if guess.name == name]
    assert confusion.sum() == found.images == 13
    assert 0 < np.trace(confusion) < 13  # or there would be nothing to tell apart
    assert found.found.confidence == pytest.approx(probabilities, rel=1e-5)
    assert np.ptp(probabilities) > 0.1
    told = found.to_dict()
    assert told["confusion"] == confusion.tolist()
    assert told["error"] == pytest.approx(100 * (1 - np.trace(confusion) / 13))
    shares = [100 * (1 - confusion[k, k] / confusion[k].sum()) for k in (0, 2)]
    assert told["class_errors"] == {"a": pytest.approx(shares[0]), "b": None, "c": pytest.approx(shares[1])}
    assert told["balanced_error"] == pytest.approx(sum(shares) / 2)
    assert told["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    gaps = [abs(sum(right for _, right in pairs) - sum(share for share, _ in pairs)) for pairs in bins.values()]
    assert told["calibration_error"] == pytest.approx(100 * sum(gaps) / 13, rel=1e-5)
    assert (told["missing_classes"], told["part"]) == (["b"], "all images")
    assert found.notes == ("1 of 3 classes of the model have no images here and do not count",)
    assert main(["evaluate", str(run), f"folder:{tmp_path / 'other'}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert main(["evaluate", str(run), f"folder:{tmp_path / 'other'}"]) == 0
    text = capsys.readouterr().out
    assert f"error %            {told['error']:.2f}\n" in text
    assert "note: 1 of 3 classes of the model have no images here" in text
    assert text.split("columns: the class it was given\n")[1].split() == [
        *CLASSES,
        *(str(cell) for name, row in zip(CLASSES, confusion.tolist(), strict=True) for cell in (name, *row)),
    ]


def test_the_test_images_of_a_training_give_its_result_again(trained: Trained) -> None:
    folder, _, result = trained["darts"]
    found = smallgroup.evaluate(folder, "digits")
    assert (found.found.confusion, found.found.error) == (result.confusion, result.test_error)
    assert (found.part, found.notes) == ("test images", ())


def test_which_images_of_a_folder(run: Path, tmp_path: Path) -> None:
    """All of another folder, its test or val part, and of the data of the training the part that was set aside."""
    pictures(tmp_path / "own", {"a": 5, "b": 5, "c": 10})
    pictures(tmp_path / "parts" / "train", {"a": 3, "b": 3})
    pictures(tmp_path / "parts" / "val", {"b": 2})
    (tmp_path / "link").symlink_to(tmp_path / "own")
    for name, images, part in [
        ("own", 4, "test images"),
        ("link", 4, "test images"),
        ("parts", 2, "images of val/"),
        ("parts/train", 6, "all images"),
    ]:
        found = smallgroup.evaluate(run, f"folder:{tmp_path / name}")
        assert (found.images, found.part) == (images, part), name
    pictures(tmp_path / "own" / "more", {"a": 1})
    (note, _) = smallgroup.evaluate(run, f"folder:{tmp_path / 'own' / 'more'}").notes
    assert note.startswith("the folder is inside that of the training data")


def test_unknown_classes_and_bad_images_are_one_line(run: Path, tmp_path: Path, capsys: Captured) -> None:
    pictures(tmp_path / "x", {"a": 2, "dog": 1, "cat": 1})
    (tmp_path / "y" / "b").mkdir(parents=True)
    (tmp_path / "y" / "b" / "broken.png").write_bytes(b"nothing")
    picture(tmp_path / "y" / "b" / "0.png", 0)
    for name, words in [
        (
            "folder:x",
            "every class of the data must be one of the model's, but 2 of 3 are not: cat; dog; the model knows a",
        ),
        ("folder:y", "1 of 2 are not:"),
        ("digits", "10 of 10 are not"),
        ("folder:z", "z does not exist"),
    ]:
        assert main(["evaluate", str(run), name.replace("folder:", f"folder:{tmp_path}/")]) == 2
        out, error = capsys.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert words in error
    with pytest.raises(DataError, match="every class of the data"):
        smallgroup.evaluate(run, f"folder:{tmp_path / 'x'}")
    found = smallgroup.evaluate(run, f"folder:{tmp_path / 'y'}", skip_bad_images=True)
    assert (found.images, len(found.skipped)) == (1, 1)


def test_a_table_of_many_images(run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than two batches; names that a spreadsheet would compute; files that are no images."""
    monkeypatch.chdir(tmp_path)
    picture(Path("=1+2") / "x.png", 1)
    for number in range(210):
        (Path("many") / f"{number:03}.png").parent.mkdir(exist_ok=True)
        Path(f"many/{number:03}.png").write_bytes(Path("=1+2/x.png").read_bytes())
    picture(Path("many/100.png"), 2)
    Path("many/150.png").write_bytes(b"no image")
    words = ["predict", str(run), "=1+2/x.png", "many", "--top", "4", "--csv", "out.csv"]
    assert main(words) == 1
    out, error = capsys.readouterr()
    assert out == "211 images are in out.csv\n"
    assert error == "error: 1 of 211 images cannot be classified\n"
    titles, *rows = csv.reader(Path("out.csv").read_text().splitlines())
    assert titles[:5] == ["image", "class", "probability", "class_2", "probability_2"]
    assert titles[-1] == "problem"
    expected = smallgroup.predict(run, ["=1+2/x.png", "many"], top=3)
    assert rows[0][0] == "'=1+2/x.png"
    assert [row[0] for row in rows[1:]] == [prediction.image for prediction in expected[1:]]
    for row, prediction in zip(rows, expected, strict=True):
        cells = [cell for guess in prediction.guesses for cell in (guess.name, repr(guess.probability))]
        assert row[1:9] == [*cells, *[""] * (8 - len(cells))]  # three classes, and four were asked for
        assert row[9] == (prediction.problem or "")
    assert rows[151][9].startswith("cannot be decoded")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["=1+2", "many", "out.csv", "run"]


def test_a_table_that_is_interrupted_is_not_there(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    picture(tmp_path / "x" / "0.png", 0)
    (tmp_path / "out.csv").write_text("an older table")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("smallgroup.phases.training.predict.Queue._classified", interrupted)
    assert main(["predict", str(run), str(tmp_path / "x"), "--csv", str(tmp_path / "out.csv")]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    assert (tmp_path / "out.csv").read_text() == "an older table"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "run", "x"]


def test_progress_is_a_line_a_minute_where_there_is_no_terminal() -> None:
    times = iter(range(0, 1000, 25))
    out = io.StringIO()
    items = counted(range(5), 5, "images classified", Console(file=out), lambda: next(times))
    assert list(items) == list(range(5))
    assert out.getvalue() == "3 of 5 images classified\n"
