"""Bad input is refused, and help and lists are printed, before torch is loaded: it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import torch

from smallgroup.phases.training import cells, peers
from smallgroup.spaces import genotypes

HEAVY = ["torch", "scipy", "sklearn", "matplotlib"]
SCRIPT = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout

import smallgroup.config

assert smallgroup.config.resolve({}).recipe == "quick"
assert smallgroup.config.Config(method="gdas").learners[0].method == "gdas"
told = {"config": [0, "", [name for name in HEAVY if name in sys.modules]]}
from smallgroup.cli import main

for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(line.split())
    told[line] = [code, err.getvalue(), [name for name in HEAVY if name in sys.modules], out.getvalue()]
print(json.dumps(told))
"""
REFUSED = {
    "search --method dartz": "'dartz'",
    "search --learners two": "'two'",
    "search --hypergradient second": "'second'",
    "search --set search.epocs=3": "search.epochs",
    "search --set methods.pc-dart.part=3": "methods.pc-dart",
    "search --set search.epochs=three": "'three'",
    "search --recipe fast": "'fast'",
    "search --seeds 5-1": "'5-1'",
    "search --time-budget soon": "soon",
    "search --resume": "--out",
    "search --device gpu": "a device must be auto, cpu, cuda, cuda:N or mps, but got 'gpu'",
    "run --device cuda": "torch",
    "study lambda --device cuda:x": "'cuda:x'",
    "search --dataset folder:nowhere": "nowhere does not exist",
    "search --dataset cifar10 --data-root nowhere": "CIFAR-10",
    "search --unlabeled folder:nowhere": "nowhere does not exist",
    "search --dataset hf:nowhere": "'nowhere'",
    "search --unlabeled own:nowhere": "come from Python",
    "search --config nowhere.yaml": "nowhere.yaml",
    "search --out photos": "photos holds other files, such as cat",
    "search --out photos --seeds 1-2": "a search of several seeds needs a new or empty folder",
    "search --out begun": "begun must be empty or resumed",
    "search --out begn --resume": "the nearest run is in begun",
    "search --out begun --resume --seed 7": "seed was 0 and is 7",
    "search --out begun --resume --method gdas": "learners",
    "search --out seeds --seeds 1-2 --resume --set search.epochs=77": "search.epochs was 6 and is 77",
    "search --method pc-darts --dataset folder:nowhere": "nowhere does not exist",
    "search --method p-darts --set search.epocs=3": "search.epochs",
    "search --method p-darts --space nas-bench-201": "p-darts must search a space that has the key space.cells (darts,",
    "run --method p-darts --space proxyless": "but proxyless has none",
    "search --seed 1_000": "a whole number is needed, but got '1_000'",
    "search --set seed=1_000": "seed must be a whole number, but got '1_000'",
    "run --out begun --resume --set search.lambda=0.25": "search.lambda was",
    "run --out begun --resume --set training.epochs=77": "training.epochs was",
    "train DARTS_V2 --out learned --resume --seed 7": "seed was 0 and is 7",
    "train DARTS_V1 --out learned --resume": "genotype.normal",
    "mutual DARTS_V2 --out peers --resume --seed 7": "seed was 0 and is 7",
    "mutual DARTS_V2 --out peers --resume --weight 3": "weight was 1.0 and is 3.0",
    "run --dataset folder:nowhere": "nowhere does not exist",
    "run --baselines resnett": "'resnett'; did you mean resnet?",
    "run --baselines none,resnet": "--baselines must be none or different names",
    "run --answer playoff": "'playoff'; did you mean play-off?",
    "train DARTS_V2 --out photos": "photos holds other files",
    "train DARTS_V2 --learners 2": "need --unlabeled: folder:PATH",
    "train DARTS_V2 DARTS_V1": "need --unlabeled: folder:PATH",
    "train DARTS_V2 DARTS_V1 --learners 3 --unlabeled train": "one per learner, must be named, but got 2 for 3",
    "train DARTS_V2 --learners 0 --unlabeled train": "training.group.learners",
    "train DARTS_V2 --learners 2 --unlabeled folder:nowhere": "nowhere does not exist",
    "train DARTS_V2 --learners 2 --unlabeled train --set training.validation=0": "training: validation must be above 0",
    "train DARTS_V2 --controls": "--controls are for networks that teach one another",
    "train DARTS_V2 --out group --resume --lambda 0.25": "training.group.lambda was 1.0 and is 0.25",
    "train DARTS_V1 --out group --resume": "cells.0.normal",
    "run --train-learners 2": "need --unlabeled: folder:PATH",
    "run --controls": "--controls are for networks that teach one another",
    "mutual DARTS_V2 DARTS_V2 --learners 3": "got 3 and 2 cells",
    "mutual DARTS_V2 DARTS_V2 --weight -1": "weight=-1",
    "describe DARTS_V2 --auxiliary three": "'three'",
    "study teaching --workers 0": "workers=0",
    "study teaching --out photos": "a study needs a new or empty folder, but photos holds other files",
    "study teaching --only grupp": "row with 'grupp' in its name, but there is none; did you mean group",
    "study teaching --only group --only nobody": "row with 'nobody'",
    "study figure-lambda --only nobody": "row with 'nobody'",  # its method has options in recipes
    "study teaching --seeds 5-1": "'5-1'",
    "study teaching --recipe fast": "'fast'",
    "doctor photos": "folder:PATH",
    "predict trained image.png --top 0": "top=0",
    "predict trained image.png --csv nowhere/x.csv": "the place of a CSV file must be a folder",
    "predict trained image.png --csv photos": "photos is a folder",
    "predict trained image.png --csv x.csv --json": "--json and --csv",
    "evaluate nowhere digits": "nowhere",
    "evaluate trained folder:nowhere": "nowhere does not exist",
    "evaluate trained digit": "'digit'; did you mean digits?",
    "evaluate trained cifar10 --data-root nowhere": "CIFAR-10",
    "export trained --format onxx": "'onxx'; did you mean onnx?",
    "bench step --batch 0": "batch=0",
    "bench step --method dartz": "'dartz'; did you mean darts?",
    "bench step --space chain": "'chain'",
    "bench step --learners 0": "learners=0",
    "bench step --hypergradient second": "'second'",
    "bench step --cells 2": "space.cells",
    "bench step --size 2": "size=2",
    "bench step --rounds 0": "rounds=0",
    "bench step --threads 0": "threads=0",
    "bench step --path gpu": "'gpu'",
    "bench memory --device cuda:x": "'cuda:x'",
    "bench ops --device cuda": "built for the CPU only",
    "list rows --device gpu": "'gpu'",
    "list spaces --device cpu": "needs `list rows`",
    "bench ops --channels 3": "channels must be even",
    "bench ops --size 0": "size=0",
    "bench ops --path plain": "'plain'",
    "bench scaling --over depth": "'depth'",
    "bench scaling --over channels --channels 1100": "channels=4400",
    "bench scaling --space darts --cells 2": "space.cells",
    "bench memory --method dartz": "'dartz'",
    "bench memory --threads 0": "threads=0",
    "bench outcome --workers 0": "workers=0",
    "bench outcome --only mnist": "'mnist'",
    "bench outcome --out photos": "photos holds other files",
    "train nosuch": "nosuch",
    "train DARTS_V2 --dataset folder:nowhere": "nowhere does not exist",
    "mutual DARTS_V2 nosuch": "nosuch",
    "describe nosuch": "nosuch",
    "describe DARTS_V2 --network mnist": "'mnist'",
    "study nosuch": "nosuch",
    "study teaching --set search.epocs=3": "search.epochs",
    "list nosuch": "nosuch",
    "report nowhere": "nowhere",
    "show nowhere": "nowhere",
    "watch nowhere": "nowhere",
    "predict nowhere image.png": "nowhere",
    "export nowhere": "nowhere",
}
PRINTED = ["--help", "search --help", "bench step --help", "--version"]
PRINTED += [
    f"list {what}"
    for what in ("genotypes", "methods", "spaces", "datasets", "ground-truths", "exporters", "recipes", "studies")
]


ABSURD = "space.cells_per_stage: Input should be less than or equal to 50, but got '1000000000'"
"""What `show` says of a run whose config has such a size; then it shows the rest."""


def test_bad_input_is_refused_and_help_printed_without_torch(tmp_path: Path) -> None:
    (tmp_path / "absurd").mkdir()
    (tmp_path / "absurd" / "config.yaml").write_text("space: {name: nas-bench-201, cells_per_stage: 1000000000}")
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "model.json").write_text("{}")
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    (tmp_path / "begun" / "config.yaml").write_text("recipe: quick")
    (tmp_path / "seeds" / "seed-1" / "checkpoints").mkdir(parents=True)
    (tmp_path / "seeds" / "seeds.yaml").write_text("recipe: quick")
    cell = genotypes.resolve("DARTS_V2")[1]
    for name, file, text in (
        ("learned", genotypes.FILE, genotypes.dumps(cell)),
        ("peers", peers.FILE, peers.Peers.of((cell,), 2, 1.0).dumps()),
        ("group", cells.FILE, cells.GroupCells.of([cell], 2).dumps()),
    ):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        more = "\nplugins: []\nunlabeled: train\ntraining: {group: {learners: 2}}" if name == "group" else ""
        (tmp_path / name / "config.yaml").write_text(f"recipe: quick\nspace: darts{more}")
        (tmp_path / name / file).write_text(text)
    # A build of torch for CUDA has to be asked which devices there are.
    refused = {
        line: words
        for line, words in REFUSED.items()
        if torch.version.cuda is None or not line.endswith("--device cuda")
    }
    lines = [*refused, *PRINTED, "show absurd"]
    script = f"HEAVY = {HEAVY!r}\n{SCRIPT}"
    made = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["config"] == [0, "", []]
    for line, words in refused.items():
        code, error, loaded, _ = told[line]
        assert (code, loaded) == (2, []), (line, error)
        assert words in error, (line, error)
        assert error.startswith("error: "), (line, error)
        assert error.count("\n") == 1, (line, error)
    for line in PRINTED:
        assert told[line][:3] == [0, "", []], line
    code, error, loaded, text = told["show absurd"]
    assert (code, error) == (0, "")
    assert "torch" not in loaded
    assert ABSURD in text
