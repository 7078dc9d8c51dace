"""A run's page on this machine alone: two routes, nothing but reading, nobody else's name for us."""

import json
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from smallgroup.report.page import LIVE_POLICY, drawn
from smallgroup.report.run import Run

HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": LIVE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Look = Callable[[], tuple[str, Callable[[], Run]]]
"""Gives a text that changes with the run, and how to read the run: reading takes longer than looking."""


class Live:
    """The page as it is now, drawn anew only when the run has moved."""

    def __init__(self, look: Look) -> None:
        self._look, self._lock = look, Lock()
        self._seen = ""
        self._page = b""
        self._news: dict[str, Any] = {}

    def page(self) -> bytes:
        """The whole page."""
        with self._lock:
            self._refresh()
            return self._page

    def news(self, version: str) -> bytes:
        """What has changed for one who has seen this version."""
        with self._lock:
            self._refresh()
            told = {"version": self._news["version"]} if version == self._news["version"] else self._news
            return json.dumps(told).encode()

    def _refresh(self) -> None:
        seen, read = self._look()
        if seen == self._seen:
            return
        run = read()
        made = drawn([run], live=True)
        version = sha256((made.main + json.dumps(made.data)).encode()).hexdigest()[:16]
        self._page = made.text.encode()
        self._news = {"version": version, "state": run.state, "main": made.main, "data": made.data}
        self._seen = seen


def make_server(look: Look, port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound and does not serve yet; port 0 is any that is free."""
    live = Live(look)

    class Handler(BaseHTTPRequestHandler):
        """One request."""

        server_version, sys_version = "smallgroup", ""
        timeout = 30

        def do_GET(self) -> None:
            own = server.server_port
            # A page of a stranger can make a browser ask us by a name of its own (DNS rebinding); that name is here.
            if self.headers.get("Host") not in (f"{HOST}:{own}", f"localhost:{own}"):
                self._answer(403, "text/plain", b"this address is served to this machine alone\n")
                return
            asked = urlsplit(self.path)
            try:
                if asked.path == "/":
                    self._answer(200, "text/html", live.page())
                elif asked.path == "/data":
                    version = parse_qs(asked.query).get("version", [""])[0]
                    self._answer(200, "application/json", live.news(version))
                else:
                    self._answer(404, "text/plain", b"there is / and /data\n")
            except (ValueError, OSError) as error:  # a folder that was moved away, say
                words = " ".join(str(error).split())
                self._answer(503, "text/plain", f"{words}\n".encode(errors="replace"))

        do_HEAD = do_GET

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: who watches a run reads the page."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A browser that leaves in the middle of an answer is no error."""

    server = Server((HOST, port), Handler)
    return server
