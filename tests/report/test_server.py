"""The live page: two routes behind a token, this machine's names alone, nothing but reading, and never a hang."""

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from smallgroup.cli.watch import run
from smallgroup.pages import live_page
from smallgroup.report.server import Read, Server, make_server
from smallgroup.runner.lock import locked
from smallgroup.runtime.apart import Apart
from tests.report.hanging import ended, never
from tests.report.makers import make_run, row

Answer = tuple[int, dict[str, str], bytes]
TOKEN = "a-token-of-this-test"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("nobody's business")
    return make_run(tmp_path / "run", finished=False)


@contextmanager
def serving(read: Read) -> Iterator[Server]:
    with make_server(read, token=TOKEN) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with serving(partial(live_page, str(folder))) as server:
        yield server.server_port


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None, token: str = f"/{TOKEN}") -> Answer:
    path = f"{token}{path}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    found = (answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return found


def test_the_page_and_its_news(port: int, folder: Path) -> None:
    code, headers, body = ask(port, "/")
    assert (code, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].endswith("connect-src 'self'; frame-ancestors 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert b'data-live="yes"' in body
    news = json.loads(ask(port, "/data")[2])
    assert (news["state"], sorted(news)) == ("stopped", ["data", "main", "state", "version"])
    same = json.loads(ask(port, f"/data?version={news['version']}")[2])
    assert same == {"version": news["version"]}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row(4, 0, 5, 3)) + "\n")
    after = json.loads(ask(port, f"/data?version={news['version']}")[2])
    assert after["version"] != news["version"]
    assert "main" in after


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "//etc/passwd",
        "/data/../../secret.txt",
        "/metrics.jsonl",
        "/.lock",
        "/?/../x/",
        "/data/",
        "//data",
    ],
)
def test_no_file_is_served_by_its_path(path: str, port: int) -> None:
    code, _, body = ask(port, path)
    assert code == (200 if path.startswith("/?") else 404)
    assert b"nobody's business" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.evil.example"]
)
def test_a_name_that_is_not_ours_is_refused(host: str, port: int) -> None:
    code, _, body = ask(port, "/", host=host)
    assert code == 403
    assert b"<html" not in body
    assert ask(port, "/data", host=host)[0] == 403
    assert ask(port, "/", host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading(method: str, port: int, folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert ask(port, "/", method=method)[0] == 501
    assert ask(port, "/", method="HEAD")[::2] == (200, b"")
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_a_folder_that_goes_away_is_told_of_and_comes_back(
    port: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(port, "/")[0] == 200
    folder.rename(folder.with_name("moved"))
    code, headers, body = ask(port, "/")
    assert (code, headers["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert b"This run cannot be shown" in body
    assert b"a run is a folder with config.yaml and metrics.jsonl" in body
    assert b"Traceback" not in body
    news = json.loads(ask(port, "/data")[2])  # who looks at the page keeps it, and is told
    assert "a run is a folder with" in news["problem"]
    assert "main" in news
    folder.with_name("moved").rename(folder)
    monkeypatch.setattr("smallgroup.report.server.PAUSE", 0.0)
    assert ask(port, "/")[0] == 200
    assert "problem" not in json.loads(ask(port, "/data")[2])


def test_it_listens_to_this_machine_alone(folder: Path) -> None:
    with make_server(partial(live_page, str(folder))) as server, make_server(partial(live_page, str(folder))) as other:
        assert server.server_address[0] == "127.0.0.1"
        assert re.fullmatch(rf"http://127\.0\.0\.1:{server.server_port}/[\w-]{{22}}/", server.address)
        assert server.token != other.token


def test_the_end_says_whether_the_run_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("socketserver.BaseServer.serve_forever", interrupted)
    run(folder, 0)
    assert capsys.readouterr().err == "stopped\n"
    (folder / "training").mkdir()
    with locked(folder / "training"):
        run(folder, 0)
    assert capsys.readouterr().err == "stopped; the run continues\n"


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a run is a folder with"):
        run(tmp_path, 0)
    with pytest.raises(ValueError, match="0 <= port <= 65535 must hold, but got port=70000"):
        run(make_run(tmp_path), 70000)


@pytest.mark.parametrize("token", ["", "/", "/wrong", f"/{TOKEN}x", f"/{TOKEN[:-1]}", "/%C3%A9"])
def test_without_the_token_there_is_nothing(token: str, port: int) -> None:
    for path in ("/", "/data"):
        code, _, body = ask(port, path, token=token)
        assert code == 404
        assert body == b"open the whole address that smallgroup watch has printed\n"
    assert ask(port, "/")[0] == 200


def test_a_read_that_hangs_is_ended_and_told_of() -> None:
    with Apart(never, 0.1) as reader, serving(reader.call) as server:
        code, _, body = ask(server.server_port, "/")
        assert code == 503
        assert b"it takes more than 0.1 seconds" in body
        assert json.loads(ask(server.server_port, "/data")[2])["problem"] == "it takes more than 0.1 seconds"
        assert reader._process is None  # nothing is left behind


def test_a_read_that_dies_is_told_of() -> None:
    with Apart(ended, 60) as reader, serving(reader.call) as server:
        assert b"the process that reads it has ended; it may have run out of memory" in ask(server.server_port, "/")[2]


def test_a_read_that_hangs_keeps_nobody_waiting_who_can_be_answered() -> None:
    hanging, go_on = threading.Event(), threading.Event()

    def read(seen: str) -> dict[str, Any] | None:
        if seen:
            hanging.set()
            go_on.wait()
            return None
        return {"seen": "x", "text": "<p>a page</p>", "news": {"version": "1", "main": "", "data": {}}}

    with serving(read) as server:
        assert ask(server.server_port, "/")[2] == b"<p>a page</p>"
        first = threading.Thread(target=ask, args=(server.server_port, "/"))
        first.start()
        hanging.wait()
        try:
            assert ask(server.server_port, "/")[2] == b"<p>a page</p>"
            assert json.loads(ask(server.server_port, "/data?version=1")[2]) == {"version": "1"}
        finally:
            go_on.set()
            first.join()
