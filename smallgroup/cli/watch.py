"""Carry out `smallgroup watch`: serve the report until Ctrl-C."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from smallgroup import pages
from smallgroup.cli.early import missing_plugin
from smallgroup.cli.output import say
from smallgroup.config import check_run
from smallgroup.registry import import_plugins, imported_plugins
from smallgroup.report.run import PARTS
from smallgroup.report.server import make_server
from smallgroup.runner.lock import held
from smallgroup.runtime.apart import Apart

DEADLINE = 20.0
"""Seconds that reading and drawing a run may take."""


def run(folder: Path, port: int) -> None:
    """Serve the report of a run until Ctrl-C."""
    if not 0 <= port <= 65535:
        raise ValueError(f"0 <= port <= 65535 must hold, but got port={port}")
    check_run(folder)  # refused now rather than in the browser
    if (missing := missing_plugin(folder)) is not None:
        say(f"warning: {missing}; without it the page shows less", err=True)
    read = partial(_live_page, imported_plugins())
    with Apart(read, DEADLINE) as reader, make_server(partial(reader.call, str(folder)), port) as server:
        reader.start()
        say(f"{server.address} shows {folder}; Ctrl-C stops it")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            going = any(held(place) for place in (folder, *(folder / name for name in PARTS)) if place.is_dir())
            say("stopped; the run continues" if going else "stopped", err=True)


def _live_page(plugins: Sequence[str], *arguments: Any) -> Any:  # noqa: ANN401 -- passed on
    """Draw the page in a process of its own, which has imported nothing yet."""
    import_plugins(plugins)
    return pages.live_page(*arguments)
