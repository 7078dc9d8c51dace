"""Carry out `smallgroup shards`: write the folder, show progress."""

from pathlib import Path
from typing import cast

from rich.progress import Progress

from smallgroup.cli.output import print_columns, print_json
from smallgroup.data.folder import scan_parts
from smallgroup.data.shards import Encoding, write_shards
from smallgroup.display.console import CleanConsole, bar_columns


def run(folder: Path, out: Path, side: int, encoding: str, quality: int, *, skip_bad: bool, as_json: bool) -> None:
    """Write shards, and say what they hold."""
    parts = scan_parts(folder)
    console = CleanConsole(stderr=True)
    with Progress(*bar_columns(), console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, state="")

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, state=f"{done:,} of {total:,} images")

        kind = cast(Encoding, encoding)
        written = write_shards(parts, out, side=side, encoding=kind, quality=quality, skip_bad=skip_bad, told=told)
    if as_json:
        print_json(written.to_dict())
        return
    rows: list[tuple[object, ...]] = [(part, f"{images:,} images") for part, images in written.images.items()]
    rows.append(("size", f"{written.bytes / 2**20:,.1f} MB"))
    if written.skipped:
        rows.append(("images skipped", f"{len(written.skipped):,} that cannot be decoded"))
    print_columns([*rows, ("use", f"--dataset folder:{out}")])
