"""The notation of the DARTS papers and of their logs: `Genotype(normal=[('sep_conv_3x3', 1), ...], ...)`.

It looks like Python, and is read by Python's parser, but never run: only the few forms below mean anything.
"""

import ast
import re
import warnings

from smallgroup.spaces.darts.genotype import CellGenotype, DartsGenotype
from smallgroup.spaces.darts.plain import FLAT, from_flat
from smallgroup.spaces.reading import show

LONGEST = 10_000
"""Characters; the longest published one has less than a tenth of it."""
_DEEPEST = 4
_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ...], normal_concat=[2, 3, 4, 5], reduce=[...], reduce_concat=[...])"


def parse(text: str) -> DartsGenotype:
    """Read `Genotype(...)`, with or without the names of its four arguments, and a `NAME =` before it or not."""
    return parse_named(text)[1]


def parse_named(text: str) -> tuple[str | None, DartsGenotype]:
    """Parse a genotype, and the name that the text gives it, if any."""
    statement = _statement(text)
    name, value = None, getattr(statement, "value", None)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
    elif not isinstance(statement, ast.Expr):
        raise ValueError(f"a genotype is written like {_EXAMPLE}, but got {show(text)}")
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "Genotype":
        raise ValueError(f"a genotype is written like {_EXAMPLE}, but got {show(text)}")
    return name, from_flat(_arguments(value))


def to_text(genotype: DartsGenotype) -> str:
    """Write the notation. It has room for two edges per node only."""
    values = (
        _pairs("normal", genotype.normal),
        list(genotype.normal.concat),
        _pairs("reduce", genotype.reduce),
        list(genotype.reduce.concat),
    )
    return "Genotype(" + ", ".join(f"{key}={value}" for key, value in zip(FLAT, values, strict=True)) + ")"


def _pairs(name: str, cell: CellGenotype) -> list[tuple[str, int]]:
    for node, edges in enumerate(cell.nodes, start=2):
        if len(edges) != 2:
            raise ValueError(
                f"a genotype is written as text if every node has two edges, "
                f"but node {node} of the {name} cell has {len(edges)}"
            )
    return [(edge.operation, edge.source) for edges in cell.nodes for edge in edges]


def _statement(text: str) -> ast.stmt:
    """Parse the one statement of the text. Text that could exhaust the parser is refused before."""
    text = text.strip()
    if len(text) > LONGEST:
        raise ValueError(f"a genotype as text has at most {LONGEST:,} characters, but got {len(text):,}")
    strange = re.search(r"""[^A-Za-z0-9_\s()\[\],='"]""", text)
    if strange:
        raise ValueError(f"a genotype as text is made of names, numbers and brackets, but has {strange.group()!r}")
    depth = 0
    for bracket in re.findall(r"[()\[\]]", text):
        depth += 1 if bracket in "([" else -1
        if depth > _DEEPEST:
            raise ValueError(f"a genotype as text has at most {_DEEPEST} nested brackets, but got more")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(f"a genotype is written like {_EXAMPLE}, but line {error.lineno}: {error.msg}") from None
    except (MemoryError, RecursionError):
        raise ValueError(f"a genotype is written like {_EXAMPLE}, but got {show(text)}") from None
    if len(statements) != 1:
        raise ValueError(f"a text must hold one genotype, but it holds {len(statements)} statements")
    return statements[0]


def _arguments(call: ast.Call) -> dict[str, object]:
    if len(call.args) > len(FLAT):
        raise ValueError(f"Genotype(...) has the arguments {', '.join(FLAT)}, but got {len(call.args)}")
    arguments = dict(zip(FLAT, map(_literal, call.args), strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError(f"Genotype(...) takes every argument once, but {keyword.arg} is repeated")
        arguments[keyword.arg] = _literal(keyword.value)
    return arguments


def _literal(node: ast.expr) -> object:
    """Return lists, tuples, strings, whole numbers, and `range(a, b)` with few numbers in it."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_literal(element) for element in elements]
        case ast.Constant(value=str() | int() as value):
            return value
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Constant(value=int() as start), ast.Constant(value=int() as stop)],
            keywords=[],
        ) if 0 <= start <= stop <= 100:
            return list(range(start, stop))
        case _:
            raise ValueError(
                "a genotype as text is made of lists, tuples, strings, whole numbers and range(a, b), "
                f"but column {node.col_offset + 1} of line {node.lineno} has something else"
            )
