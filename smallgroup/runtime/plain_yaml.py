"""YAML 1.2 for configs, recipes and studies: read as untrusted input, and written so that it reads back the same.

PyYAML follows YAML 1.1, where `no` is false, `010` is 8, `1:30` is 90 and `1e-3` is text. Here scalars are those of the
core schema of YAML 1.2.
"""

import re
from typing import Any

import yaml

DEEPEST = 20
"""Deepest nesting of sections that is read."""
MOST_DIGITS = 100
"""Of a whole number, in any of the ways that YAML has to write one."""


_CORE = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
"""The core schema of YAML 1.2 (section 10.3.2): what a plain scalar of each kind looks like, and how it may begin. What
looks like an integer is one, and everything else is a string."""


class NotTakenError(ValueError):
    """It is YAML, but breaks a rule of ours, in this line."""

    def __init__(self, sentence: str, node: yaml.Node) -> None:
        super().__init__(sentence)
        self.line = node.start_mark.line + 1


class _Plain(yaml.SafeLoader):
    """A YAML loader without aliases, by which a few lines become a config of any size, and without tags."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 -- those of YAML 1.1 are not inherited
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; refuse aliases, tags and deep nesting."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tagged = getattr(event, "tag", None) is not None
        if isinstance(event, yaml.AliasEvent) or tagged or self.depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, "an alias, a tag, or too deep", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is given twice: nobody knows which one is meant."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise NotTakenError(f"a key must be given once, but {key.value[:60]!r} is given twice", key)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def construct_short_int(self, node: yaml.ScalarNode) -> int:
        """Refuse numbers with thousands of digits, which cannot even be printed."""
        if len(node.value) > MOST_DIGITS:
            raise NotTakenError(
                f"a whole number must have at most {MOST_DIGITS} digits, but got {node.value[:20]!r}...", node
            )
        base = {"0o": 8, "0x": 16}.get(node.value[:2])
        return int(node.value) if base is None else int(node.value[2:], base)


class _Dumper(yaml.SafeDumper):
    """Puts a string in quotes if YAML 1.1 or YAML 1.2 would read it as something else."""


for _tag, (_pattern, _first) in _CORE.items():
    for _either in (_Plain, _Dumper):
        _either.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})\\Z"), _first)
_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.construct_short_int)


def dumped(value: object) -> str:
    """Return the text of plain values, in the order they are given; `parsed` reads the same values from it."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False)
    return text


def parsed(text: str | bytes) -> object:
    """Parse a value. Invalid text raises `NotTakenError` if it breaks a rule of ours, else a YAMLError."""
    loader = _Plain(text)
    try:
        return loader.get_single_data()
    except NotTakenError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None
    finally:
        loader.dispose()
