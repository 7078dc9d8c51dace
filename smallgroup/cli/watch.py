"""`smallgroup watch`."""

from collections.abc import Callable
from pathlib import Path

from smallgroup import pages
from smallgroup.cli.output import say
from smallgroup.report import Run
from smallgroup.report.run import PARTS
from smallgroup.report.server import HOST, make_server
from smallgroup.runner.lock import held


def run(folder: Path, port: int) -> None:
    """Serve until Ctrl-C."""
    if not 0 <= port <= 65535:
        raise ValueError(f"0 <= port <= 65535 must hold, but got port={port}")
    pages.read_one_run(folder)  # refused now rather than in the browser
    with make_server(lambda: look(folder), port) as server:
        say(f"http://{HOST}:{server.server_port}/ shows {folder}; Ctrl-C ends it")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            going = any(held(place) for place in (folder, *(folder / name for name in PARTS)) if place.is_dir())
            say("stopped; the run goes on" if going else "stopped", err=True)


def look(folder: Path) -> tuple[str, Callable[[], Run]]:
    """What changes when the run does: names, sizes and times of its files, and whether a process works in it."""
    seen = []
    for place in (folder, *(folder / name for name in PARTS)):
        files = sorted(place.iterdir()) if place.is_dir() else []
        for file in files:
            if file.is_file() and not file.name.startswith(".") and file.name != pages.REPORT:
                about = file.stat()
                seen.append(f"{file}:{about.st_size}:{about.st_mtime_ns}")
        seen.append(str(held(place)) if place.is_dir() else "")
    return "\n".join(seen), lambda: pages.read_one_run(folder)
