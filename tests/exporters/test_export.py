"""Exports: the same logits in another runtime, everything a user needs inside, and nothing where something is wrong."""

import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
import torch
from PIL import Image
from torch import Tensor

from smallgroup.data import Images, ordered
from smallgroup.data.training_data import TrainingData
from smallgroup.exporters import (
    EXPORTERS,
    Exported,
    MissingExtraError,
    ParityError,
    about,
    export,
    export_model,
    pt2,
)
from smallgroup.exporters.export import check_parity
from smallgroup.exporters.onnx import PACKAGES, Onnx
from smallgroup.exporters.program import program_of
from smallgroup.phases.training import TrainResult, read_model
from smallgroup.phases.training.card import escaped
from smallgroup.runtime import stream
from tests.exporters.test_script import BLOCKED, check_agreement, images

Trained = dict[str, tuple[Path, TrainingData, TrainResult]]
SPACES = ("darts", "nas-bench-201")


@pytest.fixture(scope="module")
def exports(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Exported]:
    """By space and format, once: an exporter takes seconds."""
    out = tmp_path_factory.mktemp("exports")
    state = torch.get_rng_state()
    found = {
        (space, format): export_model(trained[space][0], format, out / f"{space}.{format}")
        for space in SPACES
        for format in EXPORTERS
    }
    assert torch.equal(torch.get_rng_state(), state)  # nobody drew from the global generator
    return found


def loaded(exported: Exported) -> Callable[[Tensor], Tensor]:
    """What a user would write to run the file."""
    if exported.format == "pt2":
        module: Callable[[Tensor], Tensor] = torch.export.load(exported.path).module()
        return module
    session = onnxruntime.InferenceSession(exported.path)
    return lambda images: torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


@pytest.mark.parametrize("format", EXPORTERS)
@pytest.mark.parametrize("space", SPACES)
def test_parity_in_several_batch_sizes(
    space: str, format: str, trained: Trained, exports: dict[tuple[str, str], Exported]
) -> None:
    network, _ = read_model(trained[space][0])
    run = loaded(exports[space, format])
    for count in (1, 2, 5, 64):
        images = torch.randn(count, 1, 8, 8, generator=stream("test", count))
        with torch.no_grad():
            expected, found = network(images), run(images)
        assert found.shape == (count, 10)
        assert expected.std() > 0.01  # or there would be nothing to compare
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
    largest = exports[space, format].tolerance / export.TOLERANCE  # of the logits the export was checked on
    assert 0 <= exports[space, format].difference <= 1e-6 * max(largest, 1.0)
    assert exports[space, format].difference < exports[space, format].tolerance


@pytest.mark.parametrize("format", EXPORTERS)
@pytest.mark.parametrize("space", SPACES)
def test_the_same_accuracy_to_the_digit(
    space: str, format: str, trained: Trained, exports: dict[tuple[str, str], Exported]
) -> None:
    _, data, result = trained[space]
    tested = data.dataset.test
    assert tested is not None
    assert result.test_error is not None
    assert result.test_error < 60
    assert error_of(loaded(exports[space, format]), tested, data) == result.test_error


def error_of(run: Callable[[Tensor], Tensor], tested: Images, data: TrainingData) -> float:
    batches = ordered(tested, torch.arange(len(tested)), batch_size=100, mean=data.dataset.mean, std=data.dataset.std)
    with torch.no_grad():
        right = sum(int((run(x).argmax(dim=1) == y).sum()) for x, y in batches)
    return 100 * (1 - right / len(tested))


def test_the_program_beside_an_onnx_file_agrees_on_gray_images(
    trained: Trained, exports: dict[tuple[str, str], Exported], tmp_path: Path
) -> None:
    paths = images(tmp_path / "images")
    tested = trained["darts"][1].dataset.test
    assert tested is not None
    for number, pixels in enumerate(tested.fetch(torch.arange(10))):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(pixels[0].numpy()).save(paths[-1])
    check_agreement(trained["darts"][0], exports["darts", "onnx"], paths, sys.executable, "-c", BLOCKED)
    assert exports["darts", "pt2"].script is None


def test_what_stands_inside(trained: Trained, exports: dict[tuple[str, str], Exported]) -> None:
    for (space, format), exported in exports.items():
        if format == "onnx":
            proto = onnx.load(exported.path)
            found = {prop.key: json.loads(prop.value) for prop in proto.metadata_props}
            shapes = [
                [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
                for v in (*proto.graph.input, *proto.graph.output)
            ]
            assert shapes == [["batch", 1, 8, 8], ["batch", 10]]
        else:
            extra = {"smallgroup.json": ""}
            torch.export.load(exported.path, extra_files=extra)
            found = json.loads(extra["smallgroup.json"])
        dataset = trained[space][1].dataset
        assert found == about(read_model(trained[space][0])[1])
        assert found["classes"] == list(dataset.classes)
        assert (found["mean"], found["std"]) == (list(dataset.mean), list(dataset.std))
        assert (found["image_size"], found["image_channels"], found["margin"]) == (8, 1, 1.0)


def test_no_paths_of_this_machine_inside(exports: dict[tuple[str, str], Exported]) -> None:
    for exported in exports.values():
        content = exported.path.read_bytes()
        if exported.format == "pt2":
            archive = zipfile.ZipFile(io.BytesIO(content))
            content = b"".join(archive.read(name) for name in archive.namelist())
        for secret in (Path(export.__file__).parents[2], Path(sys.prefix), Path(torch.__file__).parent):
            assert str(secret).encode() not in content
        assert b"nas_bench_201.py" not in content
        assert b"darts.py" not in content


def test_no_pickle_inside(exports: dict[tuple[str, str], Exported]) -> None:
    for space in SPACES:
        archive = zipfile.ZipFile(exports[space, "pt2"].path)
        for name in archive.namelist():
            content = archive.read(name)
            # A pickle begins with PROTO; torch packs it into a zip archive.
            assert not content.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK")) or (
                "/weights/weight_" in name
            )
            assert b'"use_pickle": true' not in content
        (config,) = [name for name in archive.namelist() if name.endswith("weights_config.json")]
        assert b'"use_pickle": false' in archive.read(config)


def test_perturbed_weights_are_noticed_in_pt2(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    def perturbed(network: Any, model: Any) -> Any:
        network = read_model(trained["nas-bench-201"][0])[0]
        with torch.no_grad():
            network.classifier.weight[3] += 1e-3 * network.classifier.weight.abs().max()
        return program_of(network, model)

    monkeypatch.setattr(pt2, "program_of", perturbed)
    (tmp_path / "model.pt2").write_text("an older export")
    with pytest.raises(ParityError, match="nothing was written"):
        export_model(trained["nas-bench-201"][0], "pt2", tmp_path / "model.pt2")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["an older export"]


@pytest.mark.parametrize("space", SPACES)
def test_a_perturbed_weight_is_noticed_in_onnx(
    space: str, trained: Trained, exports: dict[tuple[str, str], Exported]
) -> None:
    network, model = read_model(trained[space][0])
    content = exports[space, "onnx"].path.read_bytes()
    assert check_parity(network, model, Onnx().runs(content))[0] == exports[space, "onnx"].difference
    proto = onnx.load_from_string(content)
    (weight,) = [each for each in proto.graph.initializer if each.name == "classifier.weight"]
    values = onnx.numpy_helper.to_array(weight).copy()
    values[0] += 1e-2
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    with pytest.raises(ParityError):
        check_parity(network, model, Onnx().runs(proto.SerializeToString()))


def test_numbers_that_are_none_and_other_shapes_are_noticed(trained: Trained) -> None:
    network, model = read_model(trained["darts"][0])

    def spoiled(images: Tensor) -> Tensor:
        logits: Tensor = network(images).clone()
        if len(images) == 1:  # not in the last batch: a NaN must not be forgotten
            logits[0, 0] = torch.nan
        return logits

    with pytest.raises(ParityError, match="nan apart"):
        check_parity(network, model, spoiled)
    with pytest.raises(ParityError, match=r"shape \(1, 10\), but gives \(1, 9\)"):
        check_parity(network, model, lambda images: network(images)[:, :9])
    assert check_parity(network, model, network)[0] == 0


def test_the_card(trained: Trained, exports: dict[tuple[str, str], Exported]) -> None:
    result = trained["darts"][2]
    exported = exports["darts", "onnx"]
    assert exported.card == exported.path.with_name("darts.onnx.md")
    card = exported.card.read_text()
    assert f"| parameters | {result.parameters:,} |" in card
    assert f"| multiply-adds | {result.multiply_adds:,} for one image" in card
    assert f"| test error | {result.test_error:.2f} %; test images were looked at once, after the last epoch |" in card
    assert "| data | digits |" in card
    assert "dil_conv_5x5" in card
    assert "best test error" not in card


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the exporter, for tests of what is around it: the content is the name of the model's dataset."""
    monkeypatch.setattr(pt2.Pt2, "content", lambda _, __, model: model.dataset.encode())
    monkeypatch.setattr(pt2.Pt2, "runs", lambda _, content: content)
    monkeypatch.setattr(export, "check_parity", lambda *_: (0.0, 1.0))


@pytest.mark.usefixtures("quick")
def test_odd_names_do_not_break_the_card(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained["nas-bench-201"][0], tmp_path, dirs_exist_ok=True)
    names = ["a|b", "<script>", "x\n\n# heading", "`code`", "[x](y)", "\ud800", "", "\u202eabc", "a\\", "z" * 1000]
    data = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**data, "classes": names, "dataset": "folder:a|b\n|c"}))
    record = json.loads((tmp_path / "result.json").read_text())
    odd = {"best_test_error": 1.5, "dataset": "<b>|", "class_errors": {"a|": 1.0, "\n# b": 2.0}}
    (tmp_path / "result.json").write_text(json.dumps({**record, **odd}))
    card = export_model(tmp_path, "pt2").card.read_text()
    table = card.partition("## Classes")[2].partition("## Cell")[0].split("\n")
    rows = [row for row in table if row.startswith("| ") and "logit" not in row]
    assert len(rows) == 10
    for row in card.partition("## Cell")[0].split("\n"):
        assert row.replace("\\|", "").count("|") in (0, 3)
        assert "<" not in row.replace("\\<", "")
        assert row.startswith("#") == (row in ("# Model card of model.pt2", "## Classes"))
    assert "chosen by the test images themselves" in card
    (tmp_path / "result.json").write_text(json.dumps({**record, "test_error": "<b>|"}))  # no result, then
    assert "<b>" not in export_model(tmp_path, "pt2").card.read_text()


def test_escapes() -> None:
    assert escaped("a_b|c") == "a_b\\|c"
    assert escaped("a\nb") == "a\\\\nb"
    assert escaped("") == "(empty)"
    assert escaped("plain name-1, 2.5") == "plain name-1, 2.5"


@pytest.mark.usefixtures("quick")
def test_a_model_without_result(trained: Trained, tmp_path: Path) -> None:
    for name in ("model.json", "model.safetensors"):
        shutil.copy(trained["darts"][0] / name, tmp_path)
    assert "errors | not known" in export_model(tmp_path, "pt2").card.read_text()


@pytest.mark.usefixtures("quick")
def test_where_it_is_written(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copytree(trained["darts"][0], tmp_path / "run" / "training")
    exported = export_model(tmp_path / "run", "pt2")
    assert exported.path == tmp_path / "run" / "training" / "model.pt2"
    assert exported.path.read_text() == "digits"
    assert json.loads(json.dumps(exported.to_dict()))["card"] == str(exported.path) + ".md"


@pytest.mark.usefixtures("quick")
def test_without_a_card_there_is_no_export(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "write_card", full)
    with pytest.raises(OSError, match="No space"):
        export_model(trained["darts"][0], "pt2", tmp_path / "x.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("format", "out", "message"),
    [
        ("tflite", None, "format must be one of onnx, pt2, but got 'tflite'"),
        ("pt2", "model.json", "must end in .pt2, but got"),
        ("onnx", "model.pt2", "must end in .onnx, but got"),
        ("pt2", "nowhere/model.pt2", "the place of an export must be a folder"),
    ],
)
def test_bad_input(format: str, out: str | None, message: str, trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        export_model(trained["darts"][0], format, None if out is None else tmp_path / out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_without_the_extra(package: str, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs the package {package}, .*: pip install 'smallgroup\[onnx\]'$"):
        export_model(trained["darts"][0], "onnx", tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []
