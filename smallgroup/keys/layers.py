"""The keys of a recipe below those that a user gives."""

from collections.abc import Mapping
from typing import Any

from smallgroup import recipes
from smallgroup.data.names import recipe_variant
from smallgroup.keys.forms import part
from smallgroup.spaces.config import for_space


def on_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys in long form over those of their recipe."""
    below = of_recipe(given)
    space = part(given.get("space"), "name", None) or below["space"]["name"]
    result = recipes.merged(for_space(below, space), given)
    if isinstance(result.get("learners"), list | tuple):
        result["learners"] = [_in_group(learner, space, given) for learner in result["learners"]]
    return result


def of_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the recipe for such data, space and learners, including those of other spaces."""
    name, what = variant(given)
    methods, below = _methods_of(given), recipes.keys(name, what)
    # Options of methods that nobody has are left out, and architectures first does not fit second order in a group.
    below["methods"] = {name: options for name, options in below.get("methods", {}).items() if name in methods}
    asked = given.get("search")
    if what["learners"] == "group" and part(asked, "hypergradient", "first-order") != "first-order":
        below["search"]["order"] = "v-w-a"
    if part(asked, "order", below["search"].get("order", "v-w-a")) == "v-w-a":  # where a look-ahead is the step taken
        below["search"].pop("clip_lookahead", None)
    # Two ways to say how fast the architecture moves: who gives the one does not mean the recipe's other.
    for one, other in (("lr", "travel"), ("travel", "lr")):
        if part(part(asked, "architecture", None), one, None) is not None:
            below["search"]["architecture"][other] = None
    return below


def variant(given: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return the recipe that keys in long form name, and what its variants depend on."""
    learners, methods = given.get("learners") or [{}, {}], _methods_of(given)
    name = given.get("recipe", recipes.DEFAULT)
    what = {
        "dataset": recipe_variant(str(part(given.get("data"), "dataset", "digits"))),
        "method": next(iter(methods)) if len(methods) == 1 else "",
        "learners": "alone" if isinstance(learners, list | tuple) and len(learners) == 1 else "group",
    }
    space = part(given.get("space"), "name", None) or recipes.keys(name, {**what, "space": ""})["space"]["name"]
    return name, {**what, "space": str(space)}


def _methods_of(given: Mapping[str, Any]) -> set[str]:
    learners = given.get("learners") or [{}, {}]
    many = isinstance(learners, list | tuple)
    return {str(part(learner, "method", "darts")) for learner in learners} if many else {""}


def _in_group(learner: object, space: object, given: Mapping[str, Any]) -> object:
    """Return a learner with a section `space` of its own: by default in the group's space, and over the recipe."""
    own = learner.get("space") if isinstance(learner, Mapping) else None
    if not isinstance(learner, Mapping) or not isinstance(own, Mapping):
        return learner
    named = {"name": space, **own}
    recipe, what = variant(given)
    below = for_space(recipes.keys(recipe, {**what, "space": str(named["name"])}), named["name"])["space"]
    return {**learner, "space": {**below, **named}}
