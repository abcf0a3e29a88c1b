"""A web server on loopback that fails as it is asked to, over HTTP or TLS."""

from __future__ import annotations

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


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
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, Authorization

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes, int] | None:
        """Return status, body and the length that is announced; None for no answer."""
        word = self.script[min(len(self.requests), len(self.script) - 1)]
        self.requests.append((path, authorization))
        page = self.pages.get(urlsplit(path).path)
        if word == "close":
            return None
        if word not in ("200", "cut"):
            return int(word), b"", 0
        if self.login and authorization != self.login:
            return 401, b"", 0
        if page is None:
            return 404, b"", 0
        return 200, page if word == "200" else page[: len(page) // 2], len(page)


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Server]:
    """Serve on a free port; over TLS with a certificate whose key lies beside it."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = server.answer(self.path, self.headers["Authorization"])
            if answer is None:
                return
            status, body, length = answer
            self.send_response(status)
            for name, value in {**server.headers, "Content-Length": str(length)}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                for piece in [bytes([each]) for each in body] if server.pause else [body]:
                    self.wfile.write(piece)
                    time.sleep(server.pause)

        do_HEAD = do_CONNECT = do_GET

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that refuses the certificate hangs up

    httpd = Quiet(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    server.url = f"{'https://localhost' if certificate else 'http://127.0.0.1'}:{httpd.server_port}"
    with in_background(httpd):
        yield server


@contextmanager
def in_background(httpd: ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer in a thread of its own, and close it afterwards."""
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield
    finally:
        httpd.shutdown()
        thread.join(timeout=30)
        httpd.server_close()


def own_certificate(place: Path) -> Path:
    """Make a certificate for localhost that only itself vouches for."""
    path = place / "own.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "basicConstraints=critical,CA:FALSE"]  # uv takes no authority for a server
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    return path
