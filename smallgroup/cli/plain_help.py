"""Help texts that name arguments as the documentation does: typer adds their types in Python, such as `<list[str]>`."""

from typing import Any

from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose arguments have plain names in its help: `RUN`, or `RUN...` where there may be several."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 -- typer has its own copy of click's class
        """Return the words of the line on usage."""
        arguments = [name if one.required else f"[{name}]" for one, name in self._arguments(ctx)]
        return [*([self.options_metavar] if self.options_metavar else []), *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 -- likewise
        """Write the tables of arguments and options."""
        named = {one.name: name for one, name in self._arguments(ctx)}
        tables: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                first = named.get(one.name, record[0])
                tables["Arguments" if one.name in named else "Options"].append((first, record[1]))
        for title, rows in tables.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _arguments(self, ctx: Any) -> list[tuple[Any, str]]:  # noqa: ANN401 -- likewise
        """Return every argument with its name as the help shows it."""
        found = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return [(one, f"{one.metavar}{'...' if one.nargs != 1 else ''}") for one in found]
