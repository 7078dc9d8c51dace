"""What stands beside a group, so that nothing is put down to teaching that another reason explains.

A row of a study file may say `controls: {of: NAME}`. Then these rows follow it, with its config but for:

- best of K independent: lambda 0, so that K learners are searched and the best of them is retained, as in the group;
- best of M independent: the same with as many learners of first order as make the passes that the group makes;
- self-taught: everyone learns from the labels of its own V: same images, same passes, no peer;
- uniform targets: labels that prefer no class, which smooth and teach nothing;

and the claim that teaching helps: that the group is better than the self-taught and than the best of K.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from smallgroup.config import Config
from smallgroup.phases.search.schedule import Course, Schedule

Configs = Callable[[Mapping[str, Any]], list[Config]]
"""What a row comes to, at every point of the grid."""


class Controls(BaseModel):
    """Of a row that is a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str = ""
    """What the names of the rows begin with."""
    passes: int | None = Field(default=None, ge=1, le=64)
    """Independent learners of first order that make as many passes: counted, but a file may say what it expects."""


def with_controls(keys: Mapping[str, Any], configs: Configs) -> dict[str, Any]:
    """The keys of a study file with the rows and claims that `controls` stand for."""
    given, claimed = keys.get("rows") or (), keys.get("claims") or ()
    if not isinstance(given, list | tuple) or not isinstance(claimed, list | tuple):
        return dict(keys)  # who checks the study says what is wrong with it
    rows: list[Any] = []
    claims = [*claimed]
    for row in given:
        if isinstance(row, Mapping) and "controls" in row and _has_sections(row):
            plain = {key: value for key, value in row.items() if key != "controls"}
            made, claim = _made(plain, Controls.model_validate(row["controls"]), configs)
            rows += [plain, *made]
            claims.append(claim)
        else:
            rows.append(row)
    return {**keys, "rows": rows, "claims": claims}


def independent_learners(group: Config, alone: Config) -> int:
    """How many searches alone make the passes of a group, in steps that move everything."""
    work_of_group = Course([Schedule(group.search, 1, teaches=True)]).work("all")
    work_alone = Course([Schedule(alone.search, 1, teaches=False)]).work("all")
    return len(group.learners) * work_of_group // work_alone


def _has_sections(row: Mapping[str, Any]) -> bool:
    config = row.get("config", {})
    return isinstance(config, Mapping) and isinstance(config.get("search", {}), Mapping)


def _made(row: Mapping[str, Any], controls: Controls, configs: Configs) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    config = row.get("config", {})
    own = {key: value for key, value in row.items() if key not in ("theirs", "config", "name")}
    prefix = f"{controls.of}, " if controls.of else ""

    def control(name: str, **keys: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of any key
        return {**own, "name": prefix + name, "config": _changed(config, **keys)}

    groups = configs(row)
    of_first_order = {"lambda": 0, "hypergradient": "first-order"}
    alone = configs(control("alone", **of_first_order))
    learners = _same("learners", [len(group.learners) for group in groups], row)
    passes = _same("passes", [independent_learners(*pair) for pair in zip(groups, alone, strict=True)], row)
    if controls.passes not in (None, passes):
        raise ValueError(
            f"controls: {passes} independent learners make the passes of {_named(row)}, but passes is {controls.passes}"
        )
    several = _as_many(groups, passes, row)
    rows = [
        control(f"best of {learners} independent", **{"lambda": 0}),
        control(f"best of {passes} independent", learners=several, **of_first_order),
        control("self-taught", targets="own"),
        control("uniform targets", targets="uniform"),
    ]
    for made, wanted in zip(rows, _expected(groups[0], learners, passes), strict=True):
        _check(made, wanted, configs)
    than = [rows[2]["name"], rows[0]["name"]]
    helps = "teaching helps" + (f" {controls.of}" if controls.of else "")
    return rows, {"says": helps, "row": row.get("name"), "than": than}


def _same(what: str, values: list[int], row: Mapping[str, Any]) -> int:
    """Names of rows are the same at all points of the grid, so what they tell must be."""
    if len(set(values)) > 1:
        raise ValueError(
            f"controls need a group with the same number of {what} at every point of the grid, but {_named(row)} has "
            f"{', '.join(map(str, sorted(set(values))))}"
        )
    return values[0]


def _as_many(groups: Sequence[Config], number: int, row: Mapping[str, Any]) -> int | list[dict[str, Any]]:
    """Learners like those of a group: a number where all are alike, else one kind after the other."""
    if all(kind == group.learners[0] for group in groups for kind in group.learners):
        return number
    kinds = groups[0].learners
    if any(group.learners != kinds for group in groups):
        raise ValueError(
            f"controls need the same list of learners at every point of the grid, but {_named(row)} has several"
        )
    return [kinds[k % len(kinds)].model_dump(mode="json") for k in range(number)]


Expected = tuple[int, float | None, str]
"""Learners, lambda (None: that of the group) and targets."""


def _expected(group: Config, learners: int, passes: int) -> list[Expected]:
    targets = group.search.targets
    return [(learners, 0.0, targets), (passes, 0.0, targets), (learners, None, "own"), (learners, None, "uniform")]


def _check(made: Mapping[str, Any], wanted: Expected, configs: Configs) -> None:
    """Keys that stand above those of rows could make a row something else than its name says."""
    learners, lam, targets = wanted
    for config in configs(made):
        found = (len(config.learners), None if lam is None else config.lam, config.search.targets)
        if found != wanted:
            raise ValueError(
                f"{_named(made)} must have learners={learners}, "
                f"{'' if lam is None else f'lambda={lam:g}, '}targets={targets}, but `over` or `where` has it otherwise"
            )


def _named(row: Mapping[str, Any]) -> str:
    return repr(str(row.get("name"))[:80])


def _changed(config: Mapping[str, Any], **keys: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of any key
    """A config with other values of keys of `search`, which may stand in their section or at the top."""
    at_top = {key: value for key, value in config.items() if key not in keys and key != "search"}
    section = {key: value for key, value in config.get("search", {}).items() if key not in keys}
    if "learners" in keys:
        at_top["learners"] = keys.pop("learners")
    return {**at_top, "search": {**section, **keys}}
