"""Progress of work that is counted: a bar on a terminal, a line a minute elsewhere. All on stderr."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from smallgroup.display.console import CleanConsole, bar_columns

SILENCE = 60.0
"""Seconds between two lines where there is no terminal."""
Item = TypeVar("Item")


def counted(
    items: Iterable[Item],
    total: int,
    what: str,
    console: Console | None = None,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Item]:
    """Yield the items, and show how many of them were taken; `what` follows the numbers."""
    console = console or CleanConsole(stderr=True)
    spoke = clock()
    with Progress(*bar_columns(), console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, state="")
        for count, item in enumerate(items, start=1):
            yield item
            state = f"{count:,} of {total:,} {what}"
            bar.update(task, completed=count, state=state)
            if not console.is_terminal and clock() - spoke > SILENCE:
                console.print(Text(state), soft_wrap=True)
                spoke = clock()
