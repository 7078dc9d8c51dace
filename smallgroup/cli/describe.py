"""`smallgroup describe`.

For every genotype, as JSON: `parameters` and `multiply_adds` of the network after training, as papers state them, and
what else papers count:

- `parameters_with_auxiliary`: with the head that helps to train, which `auxiliary` names. It has two batch norms on
  CIFAR; on ImageNet two in the releases of P-DARTS and DARTS-, and one in the others.
- `multiply_adds_with_elementwise`: 2 more for each number of a batch norm, 1 for each of a ReLU.
- `flash_kb` and `ram_kb`: weights and constants, and the peak of live activations for one image, both in int8.
  `ram_exact`: whether no order of the operations has a lower peak.
- `latency_ms`, with `--latency`: the median of alternating runs on this machine.

Around the cell of a run, the network is the one that the run trains, as `smallgroup show` counts it (`network` is then
`run`), unless another one is asked for. If files of the run do not tell what that is, `problem` says which, and the
network is one for CIFAR-10. Where the networks of a space have no head, the count with one is null.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from smallgroup import pages
from smallgroup.cli.output import print_columns, print_json, say
from smallgroup.exporters.exporter import require_onnxruntime
from smallgroup.exporters.latency import measure
from smallgroup.spaces import definition_of
from smallgroup.spaces.count import operations, parameters
from smallgroup.spaces.design import NetworkDesign
from smallgroup.spaces.drawing import draw
from smallgroup.spaces.footprint import footprint
from smallgroup.spaces.genotype import Genotype
from smallgroup.spaces.genotypes import resolve, to_plain
from smallgroup.spaces.networks import build_network, design_of

DEFAULT, RUN = "cifar10", "run"
"""The network around a cell, and around that of a run."""


def run(texts: list[str], network: str | None, auxiliary: str, *, latency: bool = False, as_json: bool) -> None:
    """Describe genotypes; all are read before anything is printed, so that a typo in the last one is found first."""
    subjects = [_subject(text, network, auxiliary) for text in texts]
    if latency:
        require_onnxruntime("--latency")
    descriptions = [describe(subject) for subject in subjects]
    if latency:
        measured = measure([(subject.genotype, subject.design) for subject in subjects])
        for description, milliseconds in zip(descriptions, measured, strict=True):
            description["latency_ms"] = milliseconds
    for subject in subjects:
        if subject.problem is not None:
            what = f"the size is that of a network for {subject.network} around its cell, not that of the run's network"
            say(f"warning: {subject.name}: {subject.problem}; {what}", err=True)
    if as_json:
        print_json(descriptions)
        return
    for index, (subject, description) in enumerate(zip(subjects, descriptions, strict=True)):
        say(*([""] if index else []), subject.name)
        print_columns(
            [
                ("space", description["space"]),
                ("network", _network_in_words(subject)),
                ("parameters", f"{description['parameters']:,}"),
                *_with_head(description),
                ("multiply-adds", f"{description['multiply_adds']:,}"),
                ("", f"{description['multiply_adds_with_elementwise']:,} with batch norms and ReLUs"),
                ("flash, int8", f"{description['flash_kb']:,.1f} KB of weights and constants"),
                ("RAM, int8", _ram_in_words(description)),
                *_latency(description),
            ]
        )
        say("", *draw(subject.genotype).split("\n"))


@dataclass(frozen=True)
class Subject:
    """A cell and the network around it."""

    name: str
    genotype: Genotype
    network: str
    """The network's name: that of a dataset for those of the papers, or `RUN` for that of the run."""
    design: NetworkDesign
    problem: str | None = None
    """Why the network is not that of the run; None: it is, or none was meant."""


def _subject(text: str, network: str | None, auxiliary: str) -> Subject:
    name, genotype = resolve(text)
    problem = None
    if network is None and os.path.isdir(text):  # of any text, however long
        try:
            (genotype, design), network = pages.trained_network(pages.read_one_run(Path(text))), RUN
        except ValueError as error:
            problem = str(error)
    if network != RUN:
        network = network or DEFAULT
        design = design_of(genotype, network, auxiliary=True)
    if design.auxiliary != "none" and (auxiliary != "auto" or network == "imagenet"):
        published = definition_of(genotype.space).published_auxiliary
        head = published(genotype, network) if auxiliary == "auto" else auxiliary
        design = replace(design, auxiliary=head)
    return Subject(name, genotype, network, design, problem)


def _network_in_words(subject: Subject) -> str:
    design, size = subject.design, f"{subject.design.images.size}x{subject.design.images.size}"
    if subject.network != RUN:
        return f"{subject.network}, images of {size}" + (", not that of the run" if subject.problem else "")
    return f"that of the run: {design.channels} channels, {design.images.classes} classes, images of {size}"


def describe(subject: Subject) -> dict[str, Any]:
    """Return what `--json` prints about one genotype."""
    genotype, design = subject.genotype, subject.design
    has_head = design.auxiliary != "none"
    with torch.device("meta"):
        module = build_network(genotype, design)
    counted = operations(module, design.images.size, design.images.channels)
    taken = footprint(module, design.images)
    return {
        "name": subject.name,
        "space": genotype.space,
        "network": subject.network,
        "problem": subject.problem,
        "parameters": parameters(module),
        "parameters_with_auxiliary": parameters(module, auxiliary=True) if has_head else None,
        "auxiliary": design.auxiliary,
        "multiply_adds": counted.multiply_adds,
        "multiply_adds_with_elementwise": counted.with_elementwise,
        "flash_kb": taken.flash_kb,
        "ram_kb": taken.ram_kb,
        "ram_exact": taken.schedule.exact,
        "genotype": to_plain(genotype),
    }


def _ram_in_words(description: dict[str, Any]) -> str:
    order = "the best order" if description["ram_exact"] else "the best order found"
    return f"{description['ram_kb']:,.1f} KB of live activations for one image, in {order}"


def _latency(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines on latency; none if it was not measured."""
    found, words = description.get("latency_ms"), "for one image on this machine, float32, onnxruntime, one thread"
    return [] if found is None else [("latency", f"{found:,.3g} ms {words}")]


def _with_head(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines on the auxiliary head; none if there is no head."""
    count, norms = description["parameters_with_auxiliary"], description["auxiliary"]
    words = {"one-norm": "one batch norm", "two-norms": "two batch norms"}
    return [] if count is None else [("", f"{count:,} with auxiliary head of {words[norms]}")]
