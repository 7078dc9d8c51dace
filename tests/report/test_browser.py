"""The page in a real browser: without a network, by mouse and by keyboard, at every width, and live."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from smallgroup.pages import draw_report, live_page
from smallgroup.report.server import make_server
from tests.report.makers import add_training, make_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser was tried")
from tests.tools.report_picture import CHROMIUM, FLAGS  # noqa: E402 -- needs playwright

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: no browser was tried")
PATIENCE = 120_000
"""Milliseconds until a browser on a busy machine is given up."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield started
        started.close()


class Tab:
    """A tab that notes everything it should not have to say."""

    def __init__(self, browser: Any, *, width: int = 1440, scheme: str = "light", online: bool = False) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        if not online:
            self.context.set_offline(True)

    def _dismiss(self, dialog: Any) -> None:
        self.complaints.append("a dialog")
        dialog.dismiss()

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert self.complaints == []

    def open(self, file: Path) -> Any:
        self.page.goto(file.resolve().as_uri())
        return self.page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_report(make_run(tmp_path_factory.mktemp("runs") / "digits"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both")
    runs = make_run(folder / "taught"), make_run(folder / "alone", config={"lambda": 0}, error=14.0)
    for name, error in (("training", 7.5), ("resnet", 7.6), ("random", 7.7)):
        add_training(runs[0], name=name, error=error)
    return draw_report(*runs, out=folder / "both.html")


def test_it_opens_without_a_network_and_asks_for_nothing(browser: Any, made: Path) -> None:
    with Tab(browser) as tab:
        page = tab.open(made)
        assert page.title() == "digits - Smallgroup"
        assert page.locator("h1").inner_text().startswith("digits")
        page.wait_for_timeout(300)
        assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


def test_the_essentials_are_there_without_a_script(browser: Any, made: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made.as_uri())
    assert page.locator("#answer svg.cell").first.is_visible()
    assert page.locator("#curves svg.chart").count() > 8
    assert all(panel.is_visible() for panel in page.locator("[role=tabpanel]").all())
    context.close()


def test_the_slider_shows_the_cell_of_each_epoch(browser: Any, made: Path) -> None:
    rows = [json.loads(line) for line in (made.parent / "metrics.jsonl").read_text().splitlines()]
    with Tab(browser) as tab:
        page = tab.open(made)
        slider = page.locator("#cells input[type=range]")
        slider.focus()
        for epoch in (4, 3, 2, 1):  # for people they count from 1, in the file from 0
            assert page.locator("#cells output").inner_text() == str(epoch)
            for k in (0, 1):
                row = next(one for one in rows if (one["epoch"], one["learner"]) == (epoch - 1, k))
                figure = page.locator("#cells figure").nth(k)
                shown = figure.locator("g.edge:not(.empty) .operation").all_text_contents()
                names = [part.partition("~")[0] for part in row["genotype"].replace("+", "").split("|") if part]
                assert shown == names, (epoch, k)
                table = row["scores"]["cell"]
                chosen = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3").index(names[0])
                share = table[0][chosen] / sum(table[0])
                assert float(figure.locator("g.edge .share").first.text_content()) == pytest.approx(share, abs=0.006)
            page.keyboard.press("ArrowLeft")


def test_pointing_at_an_edge_tells_the_alternatives(browser: Any, made: Path) -> None:
    with Tab(browser) as tab:
        page = tab.open(made)
        edge = page.locator("#cells g.edge").first
        edge.locator(".operation").hover()
        words = page.locator(".tip").inner_text()
        assert "alternatives: " in words
        page.locator("#cells g.edge").nth(1).focus()
        assert page.locator(".tip").inner_text() != words


def test_charts_are_read_by_pointer_and_by_keyboard(browser: Any, made: Path) -> None:
    rows = [json.loads(line) for line in (made.parent / "metrics.jsonl").read_text().splitlines()]
    with Tab(browser) as tab:
        page = tab.open(made)
        figure = page.locator("#errors")
        chart, tip = figure.locator("svg.chart"), page.locator(".tip")
        assert not tip.is_visible()
        box = chart.bounding_box()
        chart.hover(position={"x": box["width"] * 0.75, "y": box["height"] / 2})
        assert tip.inner_text().startswith("Epoch 4 (%)\nW learner 0 12.5 (line 7)")
        assert rows[6]["w_error"] == 12.5
        box, place = chart.bounding_box(), tip.bounding_box()
        assert 0 < place["x"] - (box["x"] + box["width"] * 0.75) < 30  # beside the pointer
        page.mouse.move(0, 0)
        assert not tip.is_visible()
        chart.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert tip.inner_text().startswith("Epoch 3")


def test_legends_switch_lines_and_tabs_switch_panels(browser: Any, both: Path) -> None:
    with Tab(browser) as tab:
        page = tab.open(both)
        figure = page.locator("#overlay figure").first
        line, button = figure.locator("g.series").nth(1), figure.locator(".legend button").nth(1)
        assert button.inner_text() == "alone"
        assert line.is_visible()
        button.click()
        assert not line.is_visible()
        assert button.get_attribute("aria-pressed") == "false"
        button.click()
        assert line.is_visible()
        tabs = page.locator("[data-tabs=runs] > [role=tablist] > [role=tab]")
        panels = page.locator("[data-tabs=runs] > [role=tabpanel]")
        assert [panel.is_visible() for panel in panels.all()] == [True, False]
        tabs.nth(1).click()
        assert [panel.is_visible() for panel in panels.all()] == [False, True]
        page.keyboard.press("ArrowLeft")
        assert [panel.is_visible() for panel in panels.all()] == [True, False]


def test_a_leaderboard_sorts_and_filters(browser: Any, tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / f"run-{seed}", config={"seed": seed}, error=10.0 + (3 * seed) % 5, epochs=1)
        for seed in range(12)
    ]
    (folders[1] / "result.json").unlink()  # not finished
    with Tab(browser, width=360) as tab:
        page = tab.open(draw_report(*folders, out=tmp_path / "many.html"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        names = page.locator(".board tbody tr:not([hidden]) th")
        assert names.all_inner_texts()[:3] == ["run-0", "run-5", "run-10"]
        assert names.all_inner_texts()[-1] == "run-1"
        head = page.locator(".board thead th").filter(has_text="validation error")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert names.all_inner_texts()[:2] == ["run-3", "run-8"]
        assert names.all_inner_texts()[-1] == "run-1"  # what is not known stays last
        page.locator(".board input").fill("run-1 retained:")
        assert sorted(names.all_inner_texts()) == ["run-10", "run-11"]
        assert page.locator(".board output").inner_text() == "2 of 12 runs"


def test_heat_maps_tell_the_share_below_the_pointer(browser: Any, made: Path) -> None:
    rows = [json.loads(line) for line in (made.parent / "metrics.jsonl").read_text().splitlines()]
    with Tab(browser) as tab:
        page = tab.open(made)
        figure = page.locator("#weights figure").first
        picture = figure.locator("svg image").first
        box = picture.bounding_box()
        picture.hover(position={"x": box["width"] - 2, "y": 1}, force=True)
        table = rows[6]["scores"]["cell"][0]
        told = f"Epoch 4, edge 0 → 1, none: share {table[0] / sum(table):.3f}"
        assert page.locator(".tip").inner_text() == told


def test_commands_are_copied(browser: Any, made: Path) -> None:
    with Tab(browser) as tab:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = tab.open(made)
        page.locator("#answer button.copy").first.click()
        page.wait_for_function("document.querySelector('#answer button.copy').textContent === 'Copied'")
        assert page.locator("#answer [role=status]").first.inner_text() == "Copied"
        assert page.evaluate("navigator.clipboard.readText()") == f"smallgroup train {made.parent}"


OUTSIDE = """() => Array.from(document.querySelectorAll('main *')).filter((one) => {
  if (one.closest('.scroll, nav, [role=tablist], pre') || one.closest('svg') && one.tagName !== 'svg') return false;
  const box = one.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map((one) => one.outerHTML.slice(0, 120))"""
COLLIDING = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg.cell, svg.chart, svg.heat, svg.scatter')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const boxes = Array.from(svg.querySelectorAll('text'))
      .map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([words, box]) => words && box.width);
    boxes.forEach(([words, box], i) => {
      const inside = box.left > frame.left - 1 && box.right < frame.right + 1 && box.bottom < frame.bottom + 2;
      if (!inside) found.push('clipped: ' + words);
      boxes.slice(i + 1).forEach(([others, other]) => {
        const over = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const under = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (over > 1 && under > 4) found.push(words + ' / ' + others);
      });
    });
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_clips_or_overlaps(scheme: str, browser: Any, made: Path, both: Path) -> None:
    for file in (made, both):
        with Tab(browser, scheme=scheme) as tab:
            page = tab.open(file)
            for width in (1440, 768, 360):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate(OUTSIDE) == []
                assert page.evaluate(COLLIDING) == []
            ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")


def named(folder: Path, name: str, lam: float) -> Path:
    """A run in which everything that somebody else may name has this name."""
    make_run(folder, classes=(name, "dog", "owl"), names=(f"{name}.png",) * 3, config={"lambda": lam})
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("data_root: null", f"data_root: {name}"))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"warnings": {"x": name}, "true_accuracy": {name: 5.0}, "edge_entropy": {name: [0.5]}}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = json.loads((folder / "result.json").read_text())
    result |= {"dataset": name, "true_accuracy": {name: 93.0}, "percentile": {name: 70.0}}
    (folder / "result.json").write_text(json.dumps(result))
    within = add_training(folder) / "result.json"
    trained = json.loads(within.read_text())
    trained |= {"class_errors": {name: 1.0, "dog": 2.0}, "confusion": [[9, 1], [0, 9]], "test_set": name}
    within.write_text(json.dumps(trained))
    return folder


def test_long_names_widen_nothing(browser: Any, tmp_path: Path) -> None:
    long = ("Staphylococcus_aureus_resistant" * 3)[:90]
    runs = [named(tmp_path / f"{place}{long}", long, lam) for place, lam in enumerate((1.0, 0.0))]
    for file in (draw_report(runs[0]), draw_report(*runs, out=tmp_path / "both.html")):
        with Tab(browser, width=360) as tab:
            page = tab.open(file)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for width in (360, 1440):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate(OUTSIDE) == []
            page.set_viewport_size({"width": A4, "height": 900})
            page.emulate_media(media="print")
            assert page.evaluate("document.documentElement.scrollWidth") <= A4


LINES = """(one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return range.getClientRects().length;
}"""
A4 = 686
"""Pixels between the margins of a page of paper."""
CUT = """() => Array.from(document.querySelectorAll('.scroll'))
  .filter((one) => one.querySelector('table').getBoundingClientRect().right > innerWidth + 0.5)
  .map((one) => one.getAttribute('aria-label'))"""


LEFT_ALONE = """() => Array.from(document.querySelectorAll('header, h2, h3, .about, caption, thead, summary'))
  .filter((one) => getComputedStyle(one).breakAfter !== 'avoid')
  .concat(Array.from(document.querySelectorAll('table, figure, .about'))
    .filter((one) => getComputedStyle(one).breakInside !== 'avoid'))
  .map((one) => one.outerHTML.slice(0, 80))"""
"""What introduces something, and might end a sheet of paper."""


def test_paper_cuts_no_table_and_has_the_training(browser: Any, both: Path, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", classes=tuple(f"a long name of class {c}" for c in range(10)))
    add_training(folder)
    add_training(folder, name="resnet")
    with Tab(browser, width=A4) as tab:
        page = tab.open(both)
        page.emulate_media(media="print")
        assert "end without teaching" in page.locator("#r0-teaching table").first.inner_text()
        assert page.evaluate(CUT) == []
        assert page.evaluate(LEFT_ALONE) == []
        page = tab.open(draw_report(folder))
        page.locator("details.printed > summary").click()
        assert page.evaluate(CUT) == []
        page.locator("details.printed > summary").click()
        curves = page.locator("#resnet-training-errors svg.chart")
        assert not curves.is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert curves.is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not curves.is_visible()


def test_a_phone_shows_who_teaches_whom_as_cards(browser: Any, both: Path, tmp_path: Path) -> None:
    with Tab(browser, width=360) as tab:
        page = tab.open(both)
        table = page.locator("#r0-teaching .cards")
        assert table.evaluate("(one) => one.scrollWidth") <= 338
        assert not table.locator("thead").is_visible()
        field = table.locator("tbody tr").first.locator("td").first
        assert field.evaluate("(one) => getComputedStyle(one, '::before').content") == '"strong (V at start)"'
        size = page.locator("#r0-weights svg.heat").first.evaluate(
            "(one) => Math.min(...Array.from(one.querySelectorAll('text'), (t) => t.getBoundingClientRect().height))"
        )
        assert size > 11  # of a line of 10 pixels
        page = tab.open(
            draw_report(make_run(tmp_path / "run", classes=("Donaudampfschifffahrtsgesellschaft" * 3, "b", "c")))
        )
        share = page.locator("#gallery .bars span:last-child").first
        assert share.inner_text() == "75 %"
        assert share.evaluate(LINES) == 1


def test_untrusted_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    hostile = "</script><script>window.taken=1;alert(1)</script><img src=x onerror='window.taken=1;alert(2)'>"
    folder = make_run(tmp_path / "<img src=x onerror=alert(3)>", classes=(hostile, "dog", "owl"), names=(hostile,) * 3)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("data_root: null", f"data_root: {json.dumps(hostile)}"))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row["warnings"] = {"x": hostile}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Tab(browser) as tab:
        page = tab.open(draw_report(folder, out=tmp_path / "it.html"))
        page.wait_for_timeout(300)
        assert page.evaluate("window.taken") is None
        assert page.locator("#gallery .file").first.inner_text() == hostile


def test_what_is_not_the_pages_own_does_not_run(browser: Any, made: Path, tmp_path: Path) -> None:
    """As if an untrusted text had become markup after all: the page's content security policy stops it."""
    handler = '<img src="data:," onerror="window.taken=2"><a id="link" href="javascript:window.taken=3">x</a>'
    marked = '<style>h1{color:rgb(1,2,3)}</style><p id="marked" style="color:rgb(1,2,3)">x</p>'
    page_text = made.read_text().replace("<main>", f"<main><script>window.taken=1</script>{handler}{marked}")
    place = tmp_path / "it.html"
    place.write_text(page_text)
    with Tab(browser) as tab:
        page = tab.open(place)
        page.locator("#link").click()
        page.wait_for_selector("html.js")  # the page's own script runs
        assert page.evaluate("window.taken") is None
        colors = [page.locator(one).first.evaluate("(x) => getComputedStyle(x).color") for one in ("#marked", "h1")]
        assert "rgb(1, 2, 3)" not in colors
        blocked = [one for one in tab.complaints if "Content Security Policy" in one]
        assert len(blocked) == 5
        tab.complaints[:] = [one for one in tab.complaints if one not in blocked]


def test_news_leave_alone_what_the_reader_has_set(browser: Any, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False)
    metrics = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("")
    with make_server(partial(live_page, str(folder))) as server, Tab(browser, online=True) as tab:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            page = tab.page
            page.goto(server.address)
            page.locator("#config summary").click()
            (folder / "metrics.jsonl").write_text("".join(metrics[:6]))
            page.wait_for_selector("#errors")
            opened = page.locator("details[open] > summary").all_inner_texts()
            assert opened == ["The whole config (config.yaml)"]  # charts with numbers have come before it
            page.locator("#errors .legend button").nth(1).click()
            page.locator("#gap summary").click()
            page.get_by_role("tab", name="W by class").click()
            page.locator("#slider").fill("1")
            page.evaluate("window.setInterval = () => 1")  # what plays goes no further while it is looked at
            page.locator("#cells .play").click()
            page.locator("#rates .legend button").nth(2).focus()
            focused = page.evaluate("document.activeElement.textContent")
            (folder / "metrics.jsonl").write_text("".join(metrics))
            page.wait_for_selector("#slider[max='3']")
            assert not page.locator("#errors g.series").nth(1).is_visible()
            assert page.locator("#errors .legend button[aria-pressed=false]").count() == 1
            assert page.locator("#gap details").get_attribute("open") is not None
            assert page.locator("details[open]").count() == 2
            assert page.get_by_role("tab", name="W by class").get_attribute("aria-selected") == "true"
            assert page.locator("#cells output").inner_text() == "2"
            assert page.locator("#cells .play").inner_text() == "Stop"
            assert page.evaluate("document.activeElement.textContent") == focused
            assert page.evaluate("document.activeElement.closest('figure').id") == "rates"
            assert not page.locator(".gone").is_visible()
        finally:
            server.shutdown()
            thread.join()
        server.server_close()
        page.wait_for_selector("body[data-reached=no]")
        assert page.locator(".gone").is_visible()
        assert page.locator(".gone").inner_text().startswith("No more updates: the server has stopped")
        tab.complaints[:] = [one for one in tab.complaints if "ERR_CONNECTION_REFUSED" not in one]


SEARCH = [
    "--set=data.labeled_fraction=0.1",
    "--set=space.channels=2",
    "--set=search.epochs=3",
    "--set=search.steps_per_epoch=4",
    "--set=search.batch_size={train: 8, unlabeled: 8, validation: 8}",
    "--hypergradient=first-order",
]


@pytest.mark.slow  # a search, and a browser that waits for it
def test_the_live_page_follows_a_search_to_its_end(browser: Any, tmp_path: Path) -> None:
    """A real search, a real server; the page is opened once and never again."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    program, folder = [sys.executable, "-m", "smallgroup"], tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").touch()  # a run that is about to begin
    watch = subprocess.Popen(
        [*program, "watch", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        # Whatever starts the tests in the background may have had Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    search = None
    try:
        assert watch.stdout is not None
        address = watch.stdout.readline().split()[0]
        with Tab(browser, online=True) as tab:
            tab.page.goto(address)
            tab.page.evaluate("window.opened = true")
            search = subprocess.Popen(
                [*program, "search", "--out", str(folder), *SEARCH],
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
            )
            metrics = folder / "metrics.jsonl"
            while not metrics.exists() or not metrics.stat().st_size:
                assert search.poll() is None
                time.sleep(0.002)
            search.send_signal(signal.SIGSTOP)  # after its first epoch it waits until the page has seen it
            tab.page.wait_for_selector(".state.running")
            tab.page.wait_for_selector("#curves svg.chart")
            search.send_signal(signal.SIGCONT)
            tab.page.wait_for_selector(".state.finished")
            assert tab.page.locator("#cells output").inner_text() == "3"
            assert search.wait(timeout=120) == 0
            assert tab.page.evaluate("window.opened") is True
            watch.send_signal(signal.SIGINT)
            assert watch.wait(timeout=120) == 0
            time.sleep(0.1)
            assert tab.page.locator(".state.finished").is_visible()
            # A server that is gone is a failed request, which browsers write down.
            tab.complaints[:] = [one for one in tab.complaints if "ERR_CONNECTION_REFUSED" not in one]
    finally:
        for process in (watch, search):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if watch.stdout is not None:
            watch.stdout.close()
