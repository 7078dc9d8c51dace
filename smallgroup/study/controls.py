"""What stands beside a group, so that nothing is put down to teaching that another reason explains.

A row of a study file may say `controls: {of: NAME}`. Then these rows follow it, with its config but for:

- best of K independent: lambda 0, so that K learners are searched and the best of them is retained, as in the group;
- best of M independent: the same with as many learners of first order as make the passes that the group makes;
- self-taught: everyone learns from the labels of its own V: same images, same passes, no peer;
- uniform targets: labels that prefer no class, which smooth and teach nothing;

and the claim that teaching helps: that the group is better than the self-taught and than the best of K. K and M are
numbers in the names of the rows, unless they change over the grid.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smallgroup.config import Config
from smallgroup.phases.search.schedule import Course, Schedule
from smallgroup.runtime.section import Section

Configs = Callable[[Mapping[str, Any]], list[tuple[dict[str, Any], Config]]]
"""What a row comes to, at every point of the grid."""


class Controls(Section):
    """The controls of a row that is a group."""

    of: str = ""
    """What the names of the rows begin with."""


def with_controls(keys: Mapping[str, Any], configs: Configs) -> dict[str, Any]:
    """Return the keys of a study file with the rows and claims that `controls` stand for."""
    given, claimed = keys.get("rows") or (), keys.get("claims") or ()
    if not isinstance(given, list | tuple) or not isinstance(claimed, list | tuple):
        return dict(keys)  # who checks the study says what is wrong with it
    rows: list[Any] = []
    claims = [*claimed]
    for row in given:
        if isinstance(row, Mapping) and "controls" in row:
            _check_sections(row)
            plain = {key: value for key, value in row.items() if key != "controls"}
            made, claim = _made(plain, Controls.model_validate(row["controls"]), configs)
            rows += [plain, *made]
            claims.append(claim)
        else:
            rows.append(row)
    return {**keys, "rows": rows, "claims": claims}


def independent_learners(group: Config, alone: Config) -> int:
    """Return how many searches alone make as many passes as a group, in steps that move everything."""
    work_of_group = Course([Schedule(group.search, 1, teaches=group.teaching.active)]).work("all")
    work_alone = Course([Schedule(alone.search, 1, teaches=False)]).work("all")
    return len(group.learners) * work_of_group // work_alone


def _check_sections(row: Mapping[str, Any]) -> None:
    """Refuse a study without a readable config: controls change it."""
    where = row.get("where", ())
    if not isinstance(where, list | tuple) or not all(isinstance(one, Mapping) for one in where):
        raise ValueError(f"where of {_named(row)} must be a list of sections, but got {str(where)[:60]}")
    configs = [row.get("config", {}), *(one.get("config") for one in where)]
    searches = [config.get("search", {}) for config in configs if isinstance(config, Mapping)]
    sections = [
        ("controls", row["controls"]),
        *(("config", one) for one in configs),
        *(("search", s) for s in searches),
    ]
    for name, section in sections:
        if not isinstance(section, Mapping):
            said = f"{name} of {_named(row)} must be a section of keys, such as {{}}"
            raise ValueError(f"{said}, but got {str(section)[:60]}")
    if row.get("baseline") is not None:
        raise ValueError(f"controls belong to a group, but {_named(row)} is a baseline")
    if row.get("take", "retained") != "retained":
        raise ValueError(
            f"a row with controls takes the best of its learners (take: retained), but {_named(row)} takes another"
        )


def _made(row: Mapping[str, Any], controls: Controls, configs: Configs) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    config = row.get("config", {})
    own = {key: value for key, value in row.items() if key not in ("theirs", "config", "name", "where")}
    prefix = f"{controls.of}, " if controls.of else ""

    def control(name: str, **keys: Any) -> dict[str, Any]:  # noqa: ANN401 -- values of keys of `search`
        where = [{**one, "config": _without(one["config"], keys)} for one in row.get("where", ())]
        below = _without(config, keys)
        changed = {**below, "search": {**below.get("search", {}), **keys}}
        return {**own, "name": prefix + name, "config": changed, "where": where}

    points, groups = zip(*configs(row), strict=True)
    of_first_order = {"lambda": 0, "hypergradient": "first-order"}
    alone = [config for _, config in configs(control("alone", **of_first_order))]
    learners = [len(group.learners) for group in groups]
    passes = [independent_learners(*pair) for pair in zip(groups, alone, strict=True)]
    many = control(f"best of {_one_or(passes, 'M')} independent", **of_first_order)
    several = [_as_many(group, number) for group, number in zip(groups, passes, strict=True)]
    if all(one == several[0] for one in several):
        many["config"]["learners"] = several[0]
    else:
        here = [{"at": point, "config": {"learners": one}} for point, one in zip(points, several, strict=True)]
        many["where"] += here
    rows = [
        control(f"best of {_one_or(learners, 'K')} independent", **{"lambda": 0}),
        many,
        control("self-taught", targets="own"),
        control("uniform targets", targets="uniform"),
    ]
    for made, wanted in zip(rows, _expected(groups, passes), strict=True):
        _check(made, wanted, configs)
    than = [rows[2]["name"], rows[0]["name"]]
    helps = "teaching helps" + (f" {controls.of}" if controls.of else "")
    return rows, {"says": helps, "row": row.get("name"), "than": than}


def _one_or(values: Sequence[int], letter: str) -> str:
    """Return a number if it is the same at all points of the grid, else its letter."""
    return str(values[0]) if len(set(values)) == 1 else letter


def _as_many(group: Config, number: int) -> int | list[dict[str, Any]]:
    """Return learners like those of a group: a number if all are alike, else one kind after the other."""
    kinds = group.learners
    if all(kind == kinds[0] for kind in kinds):
        return number
    return [kinds[k % len(kinds)].model_dump(mode="json") for k in range(number)]


@dataclass(frozen=True)
class Expected:
    """The values that a row must have at a point of the grid."""

    learners: int
    lam: float
    targets: str
    taught: bool

    def __str__(self) -> str:
        whether = "" if self.taught else ", nobody taught"
        return f"learners={self.learners}, lambda={self.lam:g}, targets={self.targets}{whether}"


def _expected(groups: Sequence[Config], passes: Sequence[int]) -> list[list[Expected]]:
    """Return what each control must be, at each point of the grid."""
    return [
        [Expected(len(group.learners), 0.0, group.search.targets, taught=False) for group in groups],
        [Expected(count, 0.0, group.search.targets, taught=False) for group, count in zip(groups, passes, strict=True)],
        *(
            [Expected(len(group.learners), group.lam, targets, taught=group.teaching.weight > 0) for group in groups]
            for targets in ("own", "uniform")
        ),
    ]


def _check(made: Mapping[str, Any], wanted: Sequence[Expected], configs: Configs) -> None:
    """Refuse keys over those of rows, which could make a row something else than its name says."""
    for (_, config), expected in zip(configs(made), wanted, strict=True):
        found = Expected(len(config.learners), config.lam, config.search.targets, config.teaching.active)
        if found != expected:
            raise ValueError(
                f"{_named(made)} must have {expected}, but it would have {found}: --set, `over` and `where` "
                "override the keys of rows"
            )


def _named(row: Mapping[str, Any]) -> str:
    return repr(str(row.get("name"))[:80])


def _without(config: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return a config without some keys of `search`, in their section or at the top level."""
    left = {key: value for key, value in config.items() if key not in keys}
    if "search" in left:
        left["search"] = {key: value for key, value in left["search"].items() if key not in keys}
    return left
