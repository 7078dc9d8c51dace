"""What stands below the fields of a class: read when somebody asks for help, because reading sources takes time."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


def docstring_of(owner: type, field: str) -> str:
    """Return the string below a field, in the class or the nearest one it inherits from; empty where there is none."""
    return next((found for each in owner.__mro__ if (found := _docstrings(each).get(field))), "")


@cache
def _docstrings(owner: type) -> Mapping[str, str]:
    """Return the strings that stand below the fields of a class; nothing for a class whose source is not there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, below in pairwise(body):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, str):
            found[field.target.id] = " ".join(text.split())
    return found
