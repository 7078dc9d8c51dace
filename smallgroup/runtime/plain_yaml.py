"""YAML as configs need it, read with distrust."""

from typing import Any

import yaml

DEEPEST = 20
"""Sections within one another."""
MOST_DIGITS = 100
"""Of a whole number, in any of the ways that YAML has to write one."""


class NotTakenError(ValueError):
    """It is YAML, but breaks a rule of ours, in this line."""

    def __init__(self, sentence: str, node: yaml.Node) -> None:
        super().__init__(sentence)
        self.line = node.start_mark.line + 1


class _Plain(yaml.SafeLoader):
    """Without aliases, by which a few lines become a config of any size, without tags, which no key needs, and flat."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As before, but for those."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tagged = getattr(event, "tag", None) is not None
        if isinstance(event, yaml.AliasEvent) or tagged or self.depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, "an alias, a tag, or too deep", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As before, but of a key that is given twice nobody knows which one is meant."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise NotTakenError(f"a key must be given once, but {key.value[:60]!r} is given twice", key)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def construct_short_int(self, node: yaml.ScalarNode) -> int:
        """As before, but one of thousands of digits cannot even be printed."""
        if len(node.value) > MOST_DIGITS:
            raise NotTakenError(
                f"a whole number must have at most {MOST_DIGITS} digits, but got {node.value[:20]!r}...", node
            )
        return int(self.construct_yaml_int(node))


_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.construct_short_int)


def parsed(text: str | bytes) -> object:
    """A value. What is wrong with the text is a `NotTakenError` if it breaks a rule of ours, else a YAMLError."""
    loader = _Plain(text)
    try:
        return loader.get_single_data()
    except NotTakenError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:  # such as of a day that no calendar has
        raise yaml.YAMLError(str(error)) from None
    finally:
        loader.dispose()
