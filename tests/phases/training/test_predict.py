"""Image files, seen as test images are."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import smallgroup
from smallgroup.cli import main
from smallgroup.cli import predict as command
from smallgroup.data import FileImages, TensorImages
from smallgroup.data.training_data import TrainingData
from smallgroup.phases.training import TrainResult, read_model
from smallgroup.phases.training.predict import Prediction, predict
from smallgroup.phases.training.preprocess import AnyImage
from smallgroup.runtime import stream
from tests.phases.training.models import BENCHMARK, logits_of, train

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
COLORS = {"blue": (40, 60, 190), "green": (60, 170, 60), "red": (190, 50, 60)}


def test_the_files_of_a_folder_get_the_classes_they_get_as_a_dataset(tmp_path: Path) -> None:
    """Photographs of all shapes: what is cut out and how it is resampled decides."""
    for name, color in COLORS.items():
        for number in range(20):
            photograph(tmp_path / "images" / name / f"{number}.{('png', 'jpg')[number % 2]}", color, number)
    run = tmp_path / "run"
    run.mkdir()
    data, result = train(run, BENCHMARK, f"folder:{tmp_path / 'images'}", steps=40)
    test = data.dataset.test
    assert isinstance(test, FileImages)
    expected = torch.softmax(logits_of(read_model(run)[0], test, data).double(), dim=1)
    assert len(set(expected.argmax(dim=1).tolist())) > 1  # or every prediction would be right
    predictions = predict(run, test.paths, top=3)
    names, labels = data.dataset.classes, test.labels
    assert labels is not None
    assert [p.image for p in predictions] == test.paths
    for prediction, row in zip(predictions, expected, strict=True):
        order = row.argsort(descending=True).tolist()
        assert [guess.name for guess in prediction.guesses] == [names[k] for k in order]
        assert [guess.probability for guess in prediction.guesses] == row[order].tolist()
    wrong = sum(p.guesses[0].name != names[k] for p, k in zip(predictions, labels.tolist(), strict=True))
    assert 100 * wrong / len(predictions) == pytest.approx(result.test_error)


def photograph(path: Path, color: tuple[int, int, int], number: int) -> None:
    """A disc of the color on noise, on a background that other classes have, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = 14 + number % 7, 14 + 3 * (number % 5)
    noise = torch.randint(0, 256, (height, width, 3), generator=stream("test", str(path.name), color[0]))
    y, x = np.mgrid[:height, :width]
    disc = (y - height / 2) ** 2 + (x - width / 2) ** 2 < 20 + 2 * number
    pixels = np.where(disc[..., None], np.array(color), noise.numpy()).astype(np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def digits(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Test images as files."""
    images = trained["darts"][1].dataset.test
    assert isinstance(images, TensorImages)
    folder, paths = tmp_path_factory.mktemp("digits"), []
    for number, pixels in enumerate(images.pixels[:250]):
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(pixels[0].numpy()).save(paths[-1])
    return paths


@pytest.mark.parametrize("space", ["darts", "nas-bench-201"])
def test_the_digits_as_files(space: str, trained: Trained, digits: list[str]) -> None:
    """More than a batch of them; the last batch has other companions here than in the test."""
    folder, data, _ = trained[space]
    assert data.dataset.test is not None
    logits = logits_of(read_model(folder)[0], data.dataset.test, data)[: len(digits)]
    expected = torch.softmax(logits.double(), dim=1)
    for prediction, row in zip(predict(folder, digits), expected, strict=True):
        (guess,) = prediction.guesses
        assert guess.name == str(int(row.argmax()))
        assert guess.probability == pytest.approx(float(row.max()), rel=1e-4)


def test_a_loaded_model_its_inputs_and_the_command_agree(
    trained: Trained, digits: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image of another size and in color, from its file, in memory and as an array."""
    folder = trained["darts"][0]
    with Image.open(digits[3]) as image:
        image.convert("RGB").resize((30, 20)).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        pixels = np.asarray(opened)
    model = smallgroup.load(folder)
    assert model.classes == tuple("0123456789")
    assert model.state_dict().keys() == read_model(folder)[0].state_dict().keys()
    assert main(["predict", str(folder), str(tmp_path / "a.png"), "--json", "--top", "10"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    with Image.open(tmp_path / "a.png") as opened:
        sources: list[AnyImage] = [tmp_path / "a.png", opened, pixels]
        inputs = [model.preprocess(source) for source in sources]
        for source, each in zip(sources, inputs, strict=True):
            assert each.shape == (1, 1, 8, 8)
            with torch.no_grad():
                shares = torch.softmax(model(each).double(), dim=1)[0]
            by_name = {name: float(share) for name, share in zip(model.classes, shares, strict=True)}
            (found,) = smallgroup.predict(model, source, top=10)
            assert {guess.name: guess.probability for guess in found.guesses} == by_name
            assert {guess["class"]: guess["probability"] for guess in printed["top"]} == by_name
            assert (found.class_name, found.probability) == (printed["class"], printed["probability"])
        assert opened.size == (30, 20)
    center = Image.fromarray(pixels).convert("L").resize((8, 8), Image.Resampling.BILINEAR, box=(5, 0, 25, 20))
    about = read_model(folder)[1]
    expected = (torch.from_numpy(np.array(center)) / 255 - about.mean[0]) / about.std[0]
    torch.testing.assert_close(inputs[0][0, 0], expected)


def test_images_in_memory_have_a_name_and_bad_ones_a_sentence(trained: Trained, digits: list[str]) -> None:
    model = smallgroup.load(trained["darts"][0])
    gray = np.zeros((8, 8, 1), np.uint8)
    found = smallgroup.predict(model, [digits[0], gray, Image.new("F", (8, 8))])
    assert [each.image for each in found] == [digits[0], "<array 1>", "<PIL image 2>"]
    assert found[2].problem == "has floating-point pixels, which have no fixed range"
    with pytest.raises(ValueError, match="image <PIL image> has floating-point pixels"):
        model.preprocess(Image.new("F", (8, 8)))
    with pytest.raises(ValueError, match=r"an array must be uint8 .* but got float32 \[8, 8\]"):
        model.preprocess(np.zeros((8, 8), np.float32))
    with pytest.raises(TypeError, match="a path, a PIL image or a uint8 array, but got Tensor"):
        model.preprocess(torch.zeros(8, 8))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be in eval mode"):
        smallgroup.predict(model.train(), digits)
    with pytest.raises(TypeError, match=r"must come from smallgroup\.load, but got a Linear"):
        smallgroup.predict(torch.nn.Linear(2, 2), digits)


def answer(run: Path, image: Path) -> Prediction:
    (found,) = predict(run, [image], top=10)
    return found


def test_a_color_image_for_a_model_of_gray_ones(trained: Trained, digits: list[str], tmp_path: Path) -> None:
    with Image.open(digits[0]) as image:
        image.convert("RGB").save(tmp_path / "color.png")
    gray = predict(trained["darts"][0], [digits[0]], top=10)[0]
    assert answer(trained["darts"][0], tmp_path / "color.png").guesses == gray.guesses


def test_the_margin_of_the_model_is_cut_off(trained: Trained, digits: list[str], tmp_path: Path) -> None:
    shutil.copytree(trained["darts"][0], tmp_path / "run")
    data = json.loads((tmp_path / "run" / "model.json").read_text())
    (tmp_path / "run" / "model.json").write_text(json.dumps({**data, "margin": 2.0}))
    framed = Image.new("L", (16, 16), 200)
    with Image.open(digits[1]) as image:
        framed.paste(image, (4, 4))
    framed.save(tmp_path / "framed.png")
    inner = predict(trained["darts"][0], [digits[1]], top=10)[0]
    assert answer(tmp_path / "run", tmp_path / "framed.png").guesses == inner.guesses
    assert answer(trained["darts"][0], tmp_path / "framed.png").guesses != inner.guesses


def test_how_many_classes(trained: Trained, digits: list[str]) -> None:
    folder = trained["darts"][0]
    assert [len(p.guesses) for p in predict(folder, digits[:2], top=4)] == [4, 4]
    (everything,) = predict(folder, digits[:1], top=1000)
    assert len(everything.guesses) == 10
    shares = [guess.probability for guess in everything.guesses]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert predict(folder, []) == []
    with pytest.raises(ValueError, match="top >= 1 must hold, but got top=0"):
        predict(folder, digits, top=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be decoded: no such file or directory"),
        (b"", "is empty"),
        (b"not an image", "it is no image of a known format"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "cannot be decoded"),
    ],
    ids=["missing", "empty", "text", "damaged"],
)
def test_unreadable_images(content: bytes | None, message: str, trained: Trained, tmp_path: Path) -> None:
    image = tmp_path / "x.png"
    if content is not None:
        image.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        predict(trained["darts"][0], [image])[0].class_name  # noqa: B018
    assert str(caught.value).startswith(f"image {image} ")
    assert "\n" not in str(caught.value)


def test_a_bad_file_does_not_keep_the_others_from_being_classified(
    trained: Trained, digits: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Folders are looked through, sorted; what cannot be used has a line of its own, and the exit code is 1."""
    run, good = str(trained["darts"][0]), predict(trained["darts"][0], digits[:3])
    for name, source in (("b/2.png", 2), ("a/1.png", 1), ("0.png", 0)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(digits[source], tmp_path / name)
    (tmp_path / "a" / "bad\n.png").write_text("no image")
    (tmp_path / "notes.txt").write_text("not looked at")
    code = main(["predict", run, str(tmp_path), str(tmp_path / "gone.png"), "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (code, err) == (1, "error: 2 of 5 images cannot be classified\n")
    names = ["0.png", "a/1.png", "a/bad\n.png", "b/2.png", "gone.png"]
    assert [one["image"] for one in found] == [str(tmp_path / name) for name in names]
    assert [one["class"] for one in found if "class" in one] == [each.guesses[0].name for each in good]
    assert found[2]["error"] == "cannot be decoded: it is no image of a known format"
    assert found[4]["error"] == "cannot be decoded: no such file or directory"
    assert main(["predict", run, str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2].endswith("bad\\n.png  cannot be decoded: it is no image of a known format")


def test_an_empty_folder_and_a_huge_image_are_told(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder without images"):
        predict(trained["darts"][0], [tmp_path])[0].class_name  # noqa: B018
    Image.new("1", (20_000, 10_000)).save(tmp_path / "huge.png")
    with pytest.raises(ValueError, match="more than the limit of 100,000,000"):
        predict(trained["darts"][0], tmp_path / "huge.png")[0].probability  # noqa: B018


def test_logits_that_are_not_finite(
    trained: Trained, digits: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained["darts"][0], tmp_path, dirs_exist_ok=True)
    data = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**data, "std": [1e-300]}))
    with pytest.raises(ArithmeticError, match="must be finite"):
        predict(tmp_path, digits[:1])
    assert main(["predict", str(tmp_path), digits[0]]) == 1
    said = f"error: the logits of a model must be finite, but those of the model in {tmp_path} are not\n"
    assert capsys.readouterr().err == said


def test_what_the_command_prints(trained: Trained, digits: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained["darts"][0]
    found = predict(folder, digits[:2], top=2)
    command.run(folder, digits[:2], 2, as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {
            "image": prediction.image,
            "class": prediction.guesses[0].name,
            "probability": prediction.guesses[0].probability,
            "top": [{"class": guess.name, "probability": guess.probability} for guess in prediction.guesses],
        }
        for prediction in found
    ]
    command.run(folder, digits[:2], 2, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == digits[:2]
    assert [line.split()[-3:] for line in lines] == [
        [guess.name, f"{100 * guess.probability:.2f}", "%"] for prediction in found for guess in prediction.guesses
    ]


def test_odd_names_stay_on_their_line(
    trained: Trained, digits: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained["darts"][0], tmp_path, dirs_exist_ok=True)
    data = json.loads((tmp_path / "model.json").read_text())
    classes = [f"a\n{number}\x1b[31m\ud800" for number in range(10)]
    (tmp_path / "model.json").write_text(json.dumps({**data, "classes": classes}))
    image = tmp_path / "line\nbreak.png"
    shutil.copy(digits[0], image)
    command.run(tmp_path, [str(image)], 10, as_json=False)
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 10
    assert "\x1b" not in out
    command.run(tmp_path, [str(image)], 10, as_json=True)
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["image"] == str(image)
    assert {guess["class"] for guess in entry["top"]} == set(classes)


def test_a_model_of_gray_images_sees_colored_ones_in_gray(tmp_path: Path) -> None:
    """With the mean and deviation of its own images, which its file has."""
    for name, level in {"dark": 40, "light": 150}.items():
        for number in range(20):
            path = tmp_path / "images" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            values = torch.randint(0, 80, (12, 12), generator=stream("test", name, number)) + level
            Image.fromarray(values.numpy().astype(np.uint8)).save(path)
    run = tmp_path / "run"
    run.mkdir()
    data, _ = train(run, BENCHMARK, f"folder:{tmp_path / 'images'}", steps=40)
    model = read_model(run)[1]
    assert data.dataset.channels == model.design.images.channels == 1
    assert (model.mean, model.std) == (data.dataset.mean, data.dataset.std)
    assert 0.4 < model.mean[0] < 0.6
    colored = Image.fromarray(torch.randint(0, 256, (12, 12, 3), generator=stream("test")).numpy().astype(np.uint8))
    of_color, of_gray = predict(run, [colored, colored.convert("L")], top=2)
    assert of_color.guesses == of_gray.guesses
