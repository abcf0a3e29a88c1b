"""A registry that fails as told: one image over HTTP, with answers that are put before the right ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.stand_in import Image
from tests.support.web import in_background

TOKEN = "a-token-that-only-the-login-gives"


@dataclass(frozen=True)
class Reply:
    """An answer; `cut` is the number of bytes after which the line breaks."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class Faulty:
    """What is served: `instead` has answers by the end of the path, each given once; `asked` is what came.

    With `login`, everything wants a token, which is given to that value of Authorization, or to that refresh token.
    """

    image: Image
    instead: dict[str, list[Reply]] = field(default_factory=dict)
    login: str | None = None
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    host: str = ""

    def reply(self, path: str, headers: Mapping[str, str], form: str) -> Reply:
        """Answer one request."""
        self.asked.append((path, headers))
        place = urlsplit(path).path
        for end, replies in self.instead.items():
            if place.endswith(end) and replies:
                return replies.pop(0)
        if place == "/token":
            return self._token(headers.get("Authorization", ""), form)
        if self.login and headers.get("Authorization") != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.host}/token",service="{self.host}",scope="repository:a/b:pull"'
            return Reply(401, b'{"errors": [{"code": "UNAUTHORIZED"}]}', {"WWW-Authenticate": realm})
        if place == "/v2/":
            return Reply(200, b"{}")
        return self._manifest(place) if "/manifests/" in place else self._blob(place.rpartition("/")[2])

    def _token(self, authorization: str, form: str) -> Reply:
        refresh = parse_qs(form).get("refresh_token", [""])[0]
        if self.login in (authorization, refresh):
            return Reply(200, json.dumps({"token": TOKEN}).encode())
        return Reply(401, b'{"errors": [{"code": "UNAUTHORIZED"}]}')

    def _manifest(self, place: str) -> Reply:
        found = self._blob(self.image.digest if place.endswith("/1") else place.rpartition("/")[2])
        kind = json.loads(found.body).get("mediaType", "application/json")
        return Reply(found.status, found.body, {"Content-Type": kind})

    def _blob(self, name: str) -> Reply:
        data = self.image.blobs.get(name)
        return Reply(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}') if data is None else Reply(200, data)


@contextmanager
def serving(faulty: Faulty) -> Iterator[Faulty]:
    """Serve on a free port, which `host` then names."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("")

        def do_POST(self) -> None:
            self.rfile.readline()  # a form comes in one chunk (RFC 9112, 7.1): its length, its data, an end of length 0
            form = self.rfile.readline().decode().strip()
            self.rfile.readline()
            self.rfile.readline()
            self._answer(form)

        def _answer(self, form: str) -> None:
            reply = faulty.reply(self.path, dict(self.headers), form)
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body[: reply.cut])

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    faulty.host = f"127.0.0.1:{httpd.server_port}"
    with in_background(httpd):
        yield faulty


@contextmanager
def answering(reply: Reply) -> Iterator[str]:
    """Give one answer to every request, whatever it asks; yield host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_HEAD = do_POST = do_PUT = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with in_background(httpd):
        yield f"127.0.0.1:{httpd.server_port}"
