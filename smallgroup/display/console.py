"""The console of displays and tables: the colors are ours, and nothing else in a text reaches the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.segment import Segment

from smallgroup.runtime.text import printable


class CleanConsole(Console):
    """A console on which a text is only a text: no markup in it counts, and no control character is sent."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean everything that is printed or drawn live; cursor movements and colors are no text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


def bar_columns() -> tuple[ProgressColumn, ...]:
    """Return the columns of a progress bar: its label, the bar, and the field `state` of its task."""
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[state]}", markup=False),
    )


def console_for_table(width: int) -> Console:
    """Return standard output as a console: as wide as the terminal, or `width` if there is none."""
    console = CleanConsole()
    return console if console.is_terminal else CleanConsole(width=width)
