"""What stands beside a group, so that nothing is put down to teaching that another reason explains.

A row of a study file may say `controls: {of: NAME, passes: M}`. Then these rows follow it, with its config but for:

- best of K independent: lambda 0, so that K learners are searched and the best of them is retained, as in the group;
- best of M independent: the same with as many learners of first order as make the passes that the group makes;
- self-taught: everyone learns from the labels of its own V: same images, same passes, no peer;
- uniform targets: labels that prefer no class, which smooth and teach nothing;

and the claim that teaching helps: that the group is better than the self-taught and than the best of K.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Controls(BaseModel):
    """Of a row that is a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str = ""
    """What the names of the rows begin with."""
    passes: int = Field(ge=1, le=64)
    """Independent learners of first order that make as many passes: for a group of two 4, of finite differences 11."""


def with_controls(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a study file with the rows and claims that `controls` stand for."""
    given, claimed = keys.get("rows") or (), keys.get("claims") or ()
    if not isinstance(given, list | tuple) or not isinstance(claimed, list | tuple):
        return dict(keys)  # who checks the study says what is wrong with it
    rows: list[Any] = []
    claims = [*claimed]
    for row in given:
        if isinstance(row, Mapping) and "controls" in row and _has_sections(row):
            plain = {key: value for key, value in row.items() if key != "controls"}
            made, claim = _made(plain, Controls.model_validate(row["controls"]))
            rows += [plain, *made]
            claims.append(claim)
        else:
            rows.append(row)
    return {**keys, "rows": rows, "claims": claims}


def _has_sections(row: Mapping[str, Any]) -> bool:
    config = row.get("config", {})
    return isinstance(config, Mapping) and isinstance(config.get("search", {}), Mapping)


def _made(row: Mapping[str, Any], controls: Controls) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    config = row.get("config", {})
    learners = config.get("learners", 2)
    of_first_order = {"learners": controls.passes, "lambda": 0, "hypergradient": "first-order"}
    by_name: dict[str, dict[str, Any]] = {
        f"best of {learners} independent": {"lambda": 0},
        f"best of {controls.passes} independent": of_first_order,
        "self-taught": {"targets": "own"},
        "uniform targets": {"targets": "uniform"},
    }
    prefix = f"{controls.of}, " if controls.of else ""
    own = {key: value for key, value in row.items() if key not in ("theirs", "config", "name")}
    rows = [{**own, "name": prefix + name, "config": _changed(config, **keys)} for name, keys in by_name.items()]
    than = [f"{prefix}self-taught", f"{prefix}best of {learners} independent"]
    helps = "teaching helps" + (f" {controls.of}" if controls.of else "")
    return rows, {"says": helps, "row": row.get("name"), "than": than}


def _changed(config: Mapping[str, Any], **keys: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of any key
    """A config with other values of keys of `search`, which may stand in their section or at the top."""
    at_top = {key: value for key, value in config.items() if key not in keys and key != "search"}
    section = {key: value for key, value in config.get("search", {}).items() if key not in keys}
    if "learners" in keys:
        at_top["learners"] = keys.pop("learners")
    return {**at_top, "search": {**section, **keys}}
