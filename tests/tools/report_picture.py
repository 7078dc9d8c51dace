"""`python -m tests.tools.report_picture RUN OUT.png`: the top of a run's report as the picture of the README."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from smallgroup.pages import draw_report

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]
WIDTH, HEIGHT = 1200, 1000
"""Pixels of the picture: the verdict, the numbers and the cell."""


def take(run: Path, out: Path) -> None:
    """Draw the report of a run, and write its top as a PNG; needs chromium on the path."""
    page = draw_report(run).resolve()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    take(Path(sys.argv[1]), Path(sys.argv[2]))
