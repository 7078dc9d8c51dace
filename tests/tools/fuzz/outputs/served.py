"""`smallgroup watch` on the loopback interface, with its server and token, and a client that saves the pages."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from smallgroup.cli import main, watch
from smallgroup.report.server import Read, Server, make_server
from tests.tools.fuzz.outputs.steps import Step

PATIENCE = 120.0
"""Seconds until an answer must have come."""


def watch_and_fetch(run: Path, saved: Path) -> Step:
    """Return a step that watches a run, saves the page and its news in a folder, and ends the command."""

    def step() -> int:
        client = _Client(saved)
        with patch.object(watch, "Apart", _Here), patch.object(watch, "make_server", client.serve):
            code = main(["watch", str(run), "--port", "0"])
        return client.ended() or code

    return step


class _Here:
    """Stands in for the reader process, which would import torch for every attempt and know no negative control."""

    def __init__(self, function: Read, _: float) -> None:
        self.call = function

    def __enter__(self) -> "_Here":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to end."""

    def start(self) -> None:
        """Nothing is to be started."""


class _Client:
    """Fetches all that a browser would, once the command serves."""

    def __init__(self, saved: Path) -> None:
        self._saved, self._thread = saved, Thread()
        self._error: Exception | None = None
        self._code = 0

    @contextmanager
    def serve(self, read: Read, port: int) -> Iterator[Server]:
        """Give the command its server."""
        with make_server(read, port) as server:
            self._thread = Thread(target=self._fetch_all, args=(server,))
            self._thread.start()
            yield server

    def ended(self) -> int:
        """Return 1 if the page is one that says what is wrong; raise what went wrong while it was fetched."""
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._code

    def _fetch_all(self, server: Server) -> None:
        try:
            self._saved.mkdir(parents=True, exist_ok=True)
            self._code = self._save(server.address, "page.html") != 200
            self._save(f"{server.address}data", "news.json")
            news: dict[str, Any] = json.loads((self._saved / "news.json").read_bytes())
            (self._saved / "main.html").write_text(news.get("main", ""), encoding="utf-8")
        except Exception as error:
            self._error = error
        finally:
            server.shutdown()

    def _save(self, address: str, name: str) -> int:
        where = urlsplit(address)
        connection = HTTPConnection(where.netloc, timeout=PATIENCE)
        try:
            connection.request("GET", where.path)
            answer = connection.getresponse()
            (self._saved / name).write_bytes(answer.read())
        finally:
            connection.close()
        return answer.status
