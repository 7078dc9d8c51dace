"""Every reader of untrusted input, with its inputs and the errors that it says it raises."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from smallgroup.config import help_of_keys, load, resolve, seeds_of
from smallgroup.data.decoding import Unreadable, header, picture
from smallgroup.data.unpickle import read_pickle
from smallgroup.pages import read_one_run
from smallgroup.phases.search.result import SearchResult
from smallgroup.phases.training.peers import FILE as PEERS
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.result import TrainResult, read_wrong
from smallgroup.pipeline import RunPlan
from smallgroup.report import page
from smallgroup.runner import CHECKPOINTS, read_rows
from smallgroup.runner.saved import parts_of
from smallgroup.runtime.checkpoints import MANIFEST, RECORD, TENSORS, Checkpoints
from smallgroup.spaces import genotypes
from smallgroup.spaces.darts import notation
from smallgroup.spaces.nas_bench_201 import Cell
from smallgroup.study.file import open_study
from tests.tools.fuzz import sound
from tests.tools.fuzz.damage import any_bytes, any_document, any_text, numbers, texts


@dataclass(frozen=True)
class Reader:
    """Something that reads what a user gives or an untrusted file holds; it may use a folder."""

    name: str
    inputs: SearchStrategy[Any]
    read: Callable[[Any, Path], object]
    sound: Sequence[Any]
    """Inputs that it must accept."""
    refuses: tuple[type[Exception], ...] = (ValueError,)
    share: int = 10
    """How many of its inputs are tried in comparison."""


def _written(folder: Path, name: str, content: object) -> Path:
    """A file of these bytes, or of this value as JSON, which is YAML too."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _study(keys: object, folder: Path) -> object:
    return open_study(str(_written(folder, "study.yaml", keys)))


def _checkpoint(parts: tuple[Any, Any, bytes], folder: Path) -> object:
    """With checksums that are right: who makes a file can make them too."""
    manifest, record, tensors = parts
    place = folder / CHECKPOINTS / f"{3:012d}"
    paths = [_written(place, RECORD, record), _written(place, TENSORS, tensors)]
    if isinstance(manifest, dict) and isinstance(manifest.get("sha256"), dict):
        known = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        named = {name: known.get(name, value) for name, value in manifest["sha256"].items()}
        manifest = {**manifest, "sha256": named}
    _written(place, MANIFEST, manifest)
    found = Checkpoints(folder / CHECKPOINTS).newest()
    assert found is not None
    return parts_of(found)


def _with_header(parts: tuple[Any, int, int]) -> bytes:
    """The bytes of a safetensors file with a header whose length may be a lie."""
    document, lie, rest = parts
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return max(0, min(2**64 - 1, len(text) + lie)).to_bytes(8, "little") + text + b"\x00" * rest


def _run(parts: object, folder: Path) -> object:
    """A run's folder as a report reads it, and the page."""
    given = parts if isinstance(parts, dict) else {"rows": [parts], "result": parts, "facts": parts, "config": parts}
    rows = given.get("rows")
    lines = "".join(json.dumps(row) + "\n" for row in (rows if isinstance(rows, list) else [rows]))
    _written(folder, "metrics.jsonl", lines.encode())
    for name, key in (("result.json", "result"), ("facts.json", "facts"), ("config.yaml", "config")):
        _written(folder, name, given.get(key))
    return page([read_one_run(folder)])


def _results(document: object, folder: Path) -> object:
    """What cannot be used counts as not there."""
    _written(folder, "result.json", document)
    _written(folder, genotypes.FILE, sound.GENOTYPES[1])
    return SearchResult.read(folder), TrainResult.read(folder)


def _wrong(document: object, folder: Path) -> object:
    """What cannot be used counts as not there."""
    return _present(read_wrong(_written(folder, "test.json", document).parent))


def _present(found: object) -> object:
    if found is None:
        raise ValueError("nothing that can be used")
    return found


def _image(content: bytes, folder: Path) -> object:
    path = str(_written(folder, "image.png", content))
    return header(path), picture(path, size=8, channels=3, margin=1.0, smallest=None, draws=None)


def _resolved(text: str, folder: Path) -> object:  # noqa: ARG001
    return genotypes.resolve(text)


_lies = st.one_of(st.just(0), st.just(0), st.integers(-20, 20), st.sampled_from([2**31, 2**40, 2**63]))
_tensors = st.one_of(
    st.just(sound.TENSORS),
    any_bytes([sound.TENSORS]),
    st.tuples(any_document(sound.HEADERS), _lies, st.integers(0, 40)).map(_with_header),
)
_parts = st.tuples(any_document(sound.MANIFESTS), any_document(sound.RECORDS), _tensors)
_sums = st.tuples(st.just(sound.MANIFESTS[0]), any_document(sound.RECORDS), _tensors)
_changes = st.one_of(
    any_text(sound.CHANGES),
    st.builds("{}={}".format, st.sampled_from(sorted(help_of_keys())), st.one_of(texts, numbers)),
)
_programs = st.lists(st.sampled_from(sound.OPCODES), max_size=25).map(lambda parts: b"".join(parts) + b".")

READERS: tuple[Reader, ...] = (
    Reader(
        "genotype JSON",
        st.one_of(any_document(sound.GENOTYPES).map(json.dumps), any_text([json.dumps(g) for g in sound.GENOTYPES])),
        lambda text, _: genotypes.loads(text),
        [json.dumps(one) for one in sound.GENOTYPES],
    ),
    Reader("tuple text", any_text(sound.NOTATIONS), lambda text, _: notation.parse(text), sound.NOTATIONS),
    Reader("cell text", any_text([sound.CELL]), lambda text, _: Cell.parse(text), [sound.CELL], share=5),
    Reader(
        "a genotype as a user names it",
        any_text([*sound.NOTATIONS, sound.CELL, json.dumps(sound.GENOTYPES[0]), "DARTS_V2"]),
        _resolved,
        ["DARTS_V2"],
        (ValueError, OSError),
        share=5,
    ),
    Reader(
        "config YAML",
        any_bytes(sound.YAMLS),
        lambda content, folder: resolve(load(_written(folder, "config.yaml", content))),
        sound.YAMLS,
    ),
    Reader(
        "config keys",
        any_document(sound.CONFIGS),
        lambda keys, folder: resolve(load(_written(folder, "config.yaml", keys))),
        sound.CONFIGS,
    ),
    Reader("--set", _changes, lambda change, _: resolve({}, [change]), sound.CHANGES),
    Reader("seeds", any_text(sound.SEEDS), lambda text, _: seeds_of(text), sound.SEEDS, share=3),
    Reader("study files", any_document(sound.STUDIES), _study, sound.STUDIES),
    Reader(
        "metrics",
        any_bytes(sound.LINES),
        lambda content, folder: list(read_rows(_written(folder, "metrics.jsonl", content))),
        sound.LINES,
    ),
    Reader(
        "checkpoints (manifest, record, safetensors)",
        st.one_of(_parts, _sums, _sums),
        _checkpoint,
        [(sound.MANIFESTS[0], sound.RECORDS[0], sound.TENSORS)],
    ),
    Reader("results", any_document([sound.RESULT]), _results, [sound.RESULT], (), share=5),
    Reader(
        "test images that were wrong",
        any_document(sound.WRONG),
        _wrong,
        sound.WRONG,
        share=5,
    ),
    Reader(
        "plans",
        any_document(sound.PLANS),
        lambda document, folder: RunPlan.read(_written(folder, "plan.json", document).parent),
        sound.PLANS,
        share=5,
    ),
    Reader(
        "peers",
        any_document(sound.PEERS),
        lambda document, folder: Peers.read(_written(folder, PEERS, document).parent),
        sound.PEERS,
        share=5,
    ),
    Reader(
        "CIFAR pickles",
        st.one_of(any_bytes(sound.PICKLES), any_bytes(sound.PAYLOADS), _programs),
        lambda content, folder: read_pickle(_written(folder, "data_batch_1", content)),
        sound.PICKLES,
    ),
    Reader("images", any_bytes(sound.PICTURES), _image, sound.PICTURES[:7], (Unreadable,)),
    Reader("report of a run", any_document(sound.RUNS), _run, sound.RUNS, (), share=2),
)
