"""DARTS genotypes as plain lists and dicts, the form of files: nothing in there is trusted."""

from collections.abc import Mapping
from typing import Any

from smallgroup.spaces.darts.genotype import CellGenotype, DartsGenotype, Edge
from smallgroup.spaces.reading import check_integer, check_keys, check_list, show

NESTED = ("normal", "reduce")
FLAT = ("normal", "normal_concat", "reduce", "reduce_concat")
"""The keys of the form in papers, two entries per node in one list; in the order of `Genotype(...)` in their texts."""


def to_plain(genotype: DartsGenotype) -> dict[str, Any]:
    """Return both cells, as `{"nodes": [[[operation, source], ...], ...], "concat": [...]}`."""
    return {
        name: {"nodes": [[list(edge) for edge in edges] for edges in cell.nodes], "concat": list(cell.concat)}
        for name, cell in (("normal", genotype.normal), ("reduce", genotype.reduce))
    }


def from_plain(data: object, kind: type[DartsGenotype] = DartsGenotype) -> DartsGenotype:
    """Read the form of `to_plain`, or the flat one of papers, as a genotype of the DARTS space or one of its parts."""
    if isinstance(data, Mapping) and "normal_concat" in data:
        return from_flat(data, kind)
    keys = check_keys(f"a genotype of {kind.space}", data, NESTED)
    return kind(_cell("normal", keys["normal"]), _cell("reduce", keys["reduce"]))


def from_flat(data: object, kind: type[DartsGenotype] = DartsGenotype) -> DartsGenotype:
    """Read lists of `(operation, source)`, two per node, and the nodes of the output."""
    keys = check_keys(f"a genotype of {kind.space}", data, FLAT)
    cells = {}
    for name in NESTED:
        edges = _edges(f"the {name} cell", keys[name])
        if len(edges) % 2:
            raise ValueError(f"the {name} cell must list two edges per node, but it lists {len(edges)}")
        nodes = tuple(zip(edges[::2], edges[1::2], strict=True))
        cells[name] = CellGenotype(nodes, _concat(name, keys[f"{name}_concat"]))
    return kind(**cells)


def _cell(name: str, data: object) -> CellGenotype:
    keys = check_keys(f"the {name} cell", data, ("nodes", "concat"))
    nodes = check_list(f"nodes of the {name} cell", keys["nodes"])
    edges = tuple(_edges(f"node {node} of the {name} cell", into) for node, into in enumerate(nodes, start=2))
    return CellGenotype(edges, _concat(name, keys["concat"]))


def _edges(place: str, data: object) -> tuple[Edge, ...]:
    edges = []
    for entry in check_list(place, data):
        if not isinstance(entry, list | tuple) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ValueError(f"an edge of {place} must be a pair of operation and source, but got {show(entry)}")
        edges.append(Edge(entry[0], check_integer(f"the source of {entry[0][:60]!r} in {place}", entry[1])))
    return tuple(edges)


def _concat(name: str, data: object) -> tuple[int, ...]:
    what = f"concat of the {name} cell"
    return tuple(check_integer(f"a node in {what}", node) for node in check_list(what, data))
