"""Web servers: `listening` turns a function into one, `answered` into none; `serving` has pages, and fails if asked."""

from __future__ import annotations

import io
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse


@dataclass(frozen=True)
class Request:
    """What was asked; the names of headers are written like `User-Agent`, however a client writes them.

    Of what `answered` has there is also what the client checks the server's certificate by, as requests says it.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    verify: bool | str | None = None

    @property
    def path(self) -> str:
        """Return the target without a query, and without the host that a proxy is told."""
        return urlsplit(self.target).path


@dataclass(frozen=True)
class Reply:
    """An answer; `cut` is the number of bytes after which the line breaks, `pause` the seconds after each byte."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    pause: float = 0


Answer = Callable[[Request], Reply | None]


class _Server(ThreadingHTTPServer):
    answer: Answer
    inside: Path | None

    def handle_error(self, *_: object) -> None:
        pass  # a client that refuses the certificate, or was killed, hangs up


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        headers = {name.title(): value for name, value in self.headers.items()}
        reply = self.server.answer(Request(self.command, self.path, headers, self._read()))
        if reply is None or reply.cut is not None:
            self.close_connection = True
        if reply:
            self._send(reply)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_GET

    def do_CONNECT(self) -> None:
        if self.server.inside is None:
            self.do_GET()
            return
        self.send_response(200)
        self.end_headers()
        self.connection = _context(self.server.inside).wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def _read(self) -> bytes:
        if self.headers["Transfer-Encoding"] == "chunked":
            return b"".join(iter(self._read_chunk, b""))
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _read_chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return data

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if self.command == "HEAD" else reply.body[: reply.cut]
        for piece in [bytes([byte]) for byte in body] if reply.pause else [body]:
            self.wfile.write(piece)
            time.sleep(reply.pause)

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # the one inside TLS, of which the server knows nothing

    def log_message(self, *_: object) -> None:
        pass


def _context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


@contextmanager
def listening(
    answer: Answer, address: str = "127.0.0.1", *, certificate: Path | None = None, inside: Path | None = None
) -> Iterator[str]:
    """Answer requests on a free port, with None by hanging up; yield host:port.

    certificate: that of TLS, whose key lies beside it. inside: the same for who takes the server for a proxy, to which
    it is every host itself.
    """
    server = _Server((address, 0), _Handler)
    server.answer, server.inside = answer, inside
    if certificate:
        server.socket = _context(certificate).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))  # seconds until it sees its end
    thread.start()
    try:
        yield f"{address}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(timeout=30)
        server.server_close()


@contextmanager
def answered(answer: Answer) -> Iterator[list[Request]]:
    """Answer what this process asks by requests, without a network; yield what it has asked, with whole addresses."""
    asked = list[Request]()

    def send(
        adapter: HTTPAdapter, request: requests.PreparedRequest, *, verify: bool | str, stream: bool, timeout: object,
        **_: object,
    ) -> requests.Response:  # fmt: skip
        assert stream and timeout == (10, 60), "an answer is read as far as it may go, and no server is waited for"
        assert request.method in ("GET", "HEAD", "POST", "PUT")
        body = request.body or b""
        headers = {name.title(): value for name, value in request.headers.items()}
        asked.append(Request(str(request.method), str(request.url), headers, _as_bytes(body), verify))
        reply = answer(asked[-1])
        if reply is None:
            raise requests.ConnectionError("hung up")
        head = {"Content-Length": str(len(reply.body)), **reply.headers}
        sent = io.BytesIO(b"" if request.method == "HEAD" else reply.body[: reply.cut])
        raw = HTTPResponse(
            sent, head, reply.status, preload_content=False, decode_content=False, request_method=request.method
        )
        return adapter.build_response(request, raw)

    with mock.patch.object(HTTPAdapter, "send", send):
        yield asked


def _as_bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


@dataclass
class Server:
    """What is served: `pages` by path; anything else is 404.

    `script` has one word for each request, the last one also for all later requests. A word is a status, `cut` (half of
    the page, then the connection ends) or `close` (no answer at all). With `login`, requests need that Authorization.
    After each byte of a page `pause` seconds pass.
    """

    url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    script: Sequence[str] = ("200",)
    headers: dict[str, str] = field(default_factory=dict)
    login: str | None = None
    pause: float = 0
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # target, Authorization

    def answer(self, request: Request) -> Reply | None:
        """Return the answer to one request; None for none."""
        word = self.script[min(len(self.requests), len(self.script) - 1)]
        login = request.headers.get("Authorization")
        self.requests.append((request.target, login))
        if word == "close":
            return None
        if word not in ("200", "cut"):
            return Reply(int(word), headers=self.headers)
        if self.login not in (None, login):
            return Reply(401, headers=self.headers)
        page = self.pages.get(request.path)
        if page is None:
            return Reply(404, headers=self.headers)
        return Reply(200, page, self.headers, len(page) // 2 if word == "cut" else None, self.pause)


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Server]:
    """Serve on a free port; over TLS with a certificate for localhost whose key lies beside it."""
    server = Server()
    with listening(server.answer, certificate=certificate) as host:
        server.url = f"https://{host.replace('127.0.0.1', 'localhost')}" if certificate else f"http://{host}"
        yield server
