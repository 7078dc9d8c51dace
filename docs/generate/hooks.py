"""Pages of the site that are generated when it is built, and links that lead from the repository into the site.

Commands, keys and the Python reference are read off the program. The changelog, the pages for contributors and the
results lie elsewhere in the repository and are taken over with their links rewritten.
"""

import inspect
import json
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from smallgroup.cli.app import app
from smallgroup.origins import key_values
from smallgroup.report.cells import draw_cell, drawn
from smallgroup.report.shapes import svg
from smallgroup.spaces import genotypes

ROOT = Path(__file__).parents[2]
TAKEN = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Pages of the repository, and what they are called in the site."""
MOVED = {"README.md": "index.md", **TAKEN}
PUBLIC = {
    "reference/api.md": ("Python", ["smallgroup"]),
    "reference/group.md": ("The group in Python", ["smallgroup.group"]),
    "reference/extending.md": (
        "Extending in Python",
        ["smallgroup.methods", "smallgroup.spaces", "smallgroup.data", "smallgroup.exporters", "smallgroup.testing"],
    ),
}
"""Pages of the Python reference, and the packages whose public names they have."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    made = {
        "reference/commands.md": commands_page(),
        "reference/keys.md": keys_page(),
        "figures/cell.svg": cell_figure(),
        **{place: api_page(title, packages) for place, (title, packages) in PUBLIC.items()},
        **{place: (ROOT / name).read_text() for name, place in TAKEN.items()},
    }
    for file in sorted((ROOT / "results").rglob("*")):
        if file.suffix in (".md", ".svg", ".yaml"):
            made[file.relative_to(ROOT).as_posix()] = file.read_text()
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Make links and images of the repository those of the site; what is not in the site becomes plain text."""
    place = page.file.src_uri
    names = {site: name for name, site in TAKEN.items()}
    source = ROOT / names.get(place, place if place.startswith("results/") else f"docs/{place}")

    def link(found: re.Match[str]) -> str:
        mark, words, target = found[1], found[2], found[3]
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"\w+:", path):
            return found[0]
        goal = site_path(os.path.relpath(source.parent / path, ROOT))
        if goal is None or files.get_file_from_path(goal) is None:
            return words
        return f"{mark}[{words}]({os.path.relpath(goal, Path(place).parent)}{hash_}{anchor})"

    return re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", link, markdown)


def site_path(path: str) -> str | None:
    """Return where a file of the repository is in the site; None where it is not."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path.startswith("results/") else None


def commands_page() -> str:
    """Return every command with its options, as the program has them."""
    lines = ["# Commands", "", "Generated from the program; `smallgroup COMMAND --help` prints the same."]
    lines += ["`--debug` shows where an error comes from, and `--plugin MODULE` imports [plugins](../plugins.md).", ""]
    lines += ["[Exit codes](../guarantees.md#nothing-is-lost) are the same for all commands.", ""]
    for name, command in every_command("smallgroup", typer.main.get_command(app)):
        arguments = [one.name for one in command.params if one.param_type_name == "argument"]
        words = " ".join([name, *(f"<{one.lower().strip('[].')}>" for one in arguments)])
        lines += [f"## {name}", "", f"```text\n{words} [options]\n```", "", paragraphs(command.help), ""]
        rows = [row for one in command.params if (row := option_row(one)) is not None]
        lines += ["| option | meaning | default |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def every_command(name: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 -- of click
    """Yield the commands that can be called, with their full names."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for own, one in inner.items():
        yield from every_command(f"{name} {own}", one)


def option_row(option: Any) -> str | None:  # noqa: ANN401 -- of click
    """Return a row on an option or argument; None for one that is hidden."""
    if getattr(option, "hidden", False) or "--help" in option.opts:
        return None
    names = ", ".join(f"`{one}`" for one in [*option.opts, *option.secondary_opts])
    if option.param_type_name == "argument":
        names = f"`<{option.name.lower().strip('[].')}>`"
    default = "" if option.default in (None, False, ()) or callable(option.default) else f"`{option.default}`"
    return f"| {names} | {cell(getattr(option, 'help', None))} | {cell(default)} |"


def keys_page() -> str:
    """Return every key of a config with its default and its help."""
    lines = ["# Keys", "", "Generated from the program. Values are those of the default run: recipe `quick` on digits."]
    lines += ["`smallgroup list keys` prints the values under your own options.", ""]
    lines += ["Set a key by `--set KEY=VALUE`, in a YAML file for `--config`, or in `smallgroup.Config(...)`.", ""]
    section = ""
    # Keys without a section come first, under one heading.
    for one in sorted(key_values({}), key=lambda one: "." in one.key):
        own = one.key.partition(".")[0] if "." in one.key else "The run"
        if own != section:
            lines += ["", f"## {own}", "", "| key | value | from | meaning |", "|---|---|---|---|"]
            section = own
        value = json.dumps(one.value)
        lines.append(f"| `{one.key}` | `{value}` | {cell(one.origin)} | {cell(one.help)} |")
    return "\n".join(lines)


def api_page(title: str, packages: list[str]) -> str:
    """Return a page of the public classes and functions of packages, whose texts are their docstrings."""
    lines = [f"# {title}", "", "Generated from the docstrings of the public names.", ""]
    for package in packages:
        module = import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                path = f"{value.__module__}.{value.__qualname__}"
                lines += [f"::: {path}", "    options:", f"      heading: {package}.{name}"]
                lines += [f"      toc_label: {name}", ""]
    return "\n".join(lines)


def cell_figure() -> str:
    """Return the drawing of a published cell."""
    genotype = genotypes.resolve("DARTS_V2")[1]
    return svg(draw_cell(next(iter(drawn(genotype).values())), "DARTS_V2"), standalone=True)


def paragraphs(words: str | None) -> str:
    """Return the help of a command without its indentation."""
    return inspect.cleandoc(words or "").replace("\b", "")


def cell(words: str | None) -> str:
    """Return a text that can stand in a table."""
    return " ".join((words or "").split()).replace("|", "\\|").replace("<", "&lt;")
