"""The live page: two routes, this machine's names alone, nothing but reading."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from smallgroup.cli.watch import look, run
from smallgroup.report.server import make_server
from smallgroup.runner.lock import locked
from tests.report.makers import make_run, row

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("nobody's business")
    return make_run(tmp_path / "run", finished=False)


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with make_server(lambda: look(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
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
    assert headers["Content-Security-Policy"].endswith("connect-src 'self'")
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


def test_a_folder_that_goes_away_is_told_of_and_comes_back(port: int, folder: Path) -> None:
    assert ask(port, "/")[0] == 200
    folder.rename(folder.with_name("moved"))
    code, _, body = ask(port, "/")
    assert code == 503
    assert b"Traceback" not in body
    folder.with_name("moved").rename(folder)
    assert ask(port, "/")[0] == 200


def test_it_listens_to_this_machine_alone(folder: Path) -> None:
    with make_server(lambda: look(folder)) as server:
        assert server.server_address[0] == "127.0.0.1"


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
    assert capsys.readouterr().err == "stopped; the run goes on\n"


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a run is a folder with"):
        run(tmp_path, 0)
    with pytest.raises(ValueError, match="0 <= port <= 65535 must hold, but got port=70000"):
        run(make_run(tmp_path), 70000)
