"""A run's page on this machine alone: two routes behind a secret address, nothing but reading."""

import json
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from smallgroup.report.page import policy, problem_page

HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAUSE = 10.0
"""Seconds until a run that could not be read is tried again: to fail may take long, and the page asks every two."""
Read = Callable[[str], dict[str, Any] | None]
"""Takes the `seen` of what it gave before. Gives None if the run is the same since, else `seen`, `text` and `news`."""


class Live:
    """The page as it was when it was last read, and what is wrong where it could not be read."""

    def __init__(self, read: Read) -> None:
        self._read, self._lock = read, Lock()
        self._reading: Future[None] | None = None
        self._made: dict[str, Any] | None = None
        self._problem = ""
        self._failed = -PAUSE

    def now(self) -> tuple[dict[str, Any] | None, str]:
        """Return the last state that was read, None if none was, and the current error.

        One client at a time has the run read, outside the lock. Meanwhile others get what there is; those for whom
        there is nothing wait.
        """
        with self._lock:
            reading, mine = self._reading, self._reading is None
            if mine:
                if time.monotonic() - self._failed < PAUSE:
                    return self._made, self._problem
                reading = self._reading = Future()
        assert reading is not None
        if mine:
            self._refresh(reading)
        elif self._made is None:
            reading.result()
        with self._lock:
            return self._made, self._problem

    def _refresh(self, reading: Future[None]) -> None:
        made, problem = None, ""
        try:
            made = self._read("" if self._made is None else str(self._made["seen"]))
        except (ValueError, OSError) as error:  # a folder that was moved away, say
            problem = " ".join(str(error).split())
        finally:
            with self._lock:
                self._made = made or self._made
                self._problem = problem
                self._failed = time.monotonic() if problem else -PAUSE
                self._reading = None
            reading.set_result(None)


def make_server(read: Read, port: int = 0, token: str | None = None) -> "Server":
    """Return a bound server that does not serve yet; port 0 picks a free one, a token of None makes a new one."""
    return Server(Live(read), port, token or secrets.token_urlsafe(16))


class Server(ThreadingHTTPServer):
    """Serves one run to those who know its address."""

    daemon_threads = True

    def __init__(self, live: Live, port: int, token: str) -> None:
        self.live, self.token = live, token
        super().__init__((HOST, port), Handler)

    @property
    def address(self) -> str:
        """What is opened in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, *_: object) -> None:
        """Ignore a browser that leaves in the middle of an answer."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request of the browser."""

    server: Server
    server_version, sys_version = "smallgroup", ""
    timeout = 30

    def do_GET(self) -> None:
        """Serve the page or its changes, to this machine and with the token alone."""
        own = self.server.server_port
        # A page from elsewhere can make a browser ask us by a name of its own (DNS rebinding); the Host header has it.
        if self.headers.get("Host") not in (f"{HOST}:{own}", f"localhost:{own}"):
            self._answer(403, "text/plain", b"this address is served to this machine alone\n")
            return
        asked = urlsplit(self.path)
        token, _, route = asked.path.removeprefix("/").partition("/")
        # Other users of this machine can reach the port, and untrusted pages can guess it, but not the token.
        known = compare_digest(token.encode(errors="replace"), self.server.token.encode())
        if not known or asked.path.count("/") != 2 or route not in ("", "data"):
            self._answer(404, "text/plain", b"open the whole address that smallgroup watch has printed\n")
            return
        made, problem = self.server.live.now()
        if route == "data":
            version = parse_qs(asked.query).get("version", [""])[0]
            news = {} if made is None else made["news"]
            told = {"version": version} if version == news.get("version") else news
            body = json.dumps({**told, "problem": problem} if problem else told).encode()
            self._answer(200, "application/json", body)
        elif made is None or problem:
            self._answer(503, "text/html", problem_page(problem).encode())
        else:
            self._answer(200, "text/html", made["text"].encode())

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
        """Log nothing: the page itself shows the run."""
