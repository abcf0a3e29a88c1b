"""Downloads from a real local server that is busy, breaks off, asks for a password or has a certificate of its own."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from images.host.download import fetch
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from tests.support.harness import call

DATA = b"a wheel, more or less"
DIGEST = hashlib.sha256(DATA).hexdigest()


@dataclass
class Server:
    """What is served: `script` has one word for each request, and the last one also for all later ones.

    A word is a status, `cut` (ten bytes of the file, then the connection ends) or `close` (no answer at all).
    """

    url: str = ""
    script: Sequence[str] = ("200",)
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, Authorization


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free port, over TLS with a context."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            word = server.script[min(len(server.requests), len(server.script) - 1)]
            server.requests.append((self.path, self.headers["Authorization"]))
            if word == "close":
                return
            body = {"200": DATA, "cut": DATA[:10]}.get(word, b"")
            self.send_response(200 if word == "cut" else int(word))
            self.send_header("Content-Length", str(len(DATA) if word == "cut" else len(body)))
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that refuses the certificate hangs up

    httpd = Quiet(("127.0.0.1", 0), Handler)
    if context:
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    server.url = f"{'https://localhost' if context else 'http://127.0.0.1'}:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join(timeout=30)
        httpd.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve over plain HTTP."""
    with serving() as made:
        yield made


def get(store: Path, url: str, digest: str = DIGEST, certificate: Path | None = None) -> str:
    trusted = str(certificate) if certificate else None
    return fetch(Store(store), url, digest, "a.whl", trusted, lambda _: None)


def test_a_good_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    store, came = Store(tmp_path), list[int]()

    for _ in range(2):
        assert fetch(store, f"{server.url}/a", DIGEST, "a.whl", None, came.append) == DIGEST

    assert sum(came) == len(DATA)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("script", "headers"),
    [
        (["503", "200"], {}),
        (["429", "200"], {"Retry-After": "0"}),
        (["500", "502", "200"], {"Retry-After": "soon"}),
        (["cut", "200"], {}),
        (["close", "200"], {}),
        (["cut", "503", "cut", "200"], {}),
    ],
)
def test_what_passes_is_tried_again(
    server: Server, tmp_path: Path, script: Sequence[str], headers: dict[str, str]
) -> None:
    server.script, server.headers = script, headers

    assert get(tmp_path, f"{server.url}/a") == DIGEST

    assert len(server.requests) == len(script)


@pytest.mark.parametrize(
    ("word", "digest", "fact", "value", "requests"),
    [
        ("200", "0" * 64, "a download has another sha256 than expected", f"a.whl: {DIGEST}, not 000", 1),
        ("cut", DIGEST, "cannot download", "/a (cut short: IncompleteRead(10 bytes read, 11 more", 3),
        ("close", DIGEST, "cannot download", "/a (Remote end closed connection", 3),
        ("404", DIGEST, "cannot download", "/a (404 Client Error: Not Found)", 1),
        ("503", DIGEST, "cannot download", "/a (503 Server Error: Service Unavailable)", 3),
    ],
)
def test_what_stays_is_named_and_nothing_is_kept(
    server: Server, tmp_path: Path, word: str, digest: str, fact: str, value: str, requests: int
) -> None:
    server.script = [word]

    with pytest.raises(WorldFault) as caught:
        get(tmp_path, f"{server.url}/a?signature=secret".replace("//", "//user:secret@"), digest)

    assert caught.value.fact == fact
    assert value in caught.value.value
    assert caught.value.remedy and "secret" not in str(caught.value)
    assert len(server.requests) == requests
    assert list((tmp_path / "aside").iterdir()) == []
    assert Store(tmp_path).blob(digest, "a.whl") is None


def test_a_password_in_the_address_is_sent(server: Server, tmp_path: Path) -> None:
    get(tmp_path, f"{server.url}/a".replace("//", "//user:secret@"))

    assert server.requests == [("/a", "Basic dXNlcjpzZWNyZXQ=")]


@pytest.mark.parametrize(
    ("url", "value"),
    [("http://127.0.0.1:9/a", "http://127.0.0.1:9/a ([Errno 111]"), ("ftp://u:secret@host/a", "ftp://host/a (No ")],
)
def test_nobody_answers(tmp_path: Path, url: str, value: str) -> None:
    with pytest.raises(WorldFault) as caught:
        get(tmp_path, url)

    assert value in caught.value.value and "secret" not in str(caught.value)


@pytest.mark.parametrize(("url", "fact"), [("http://[::1", "not an address"), ("/no/such/file", "no such file")])
def test_an_address_that_is_none(tmp_path: Path, url: str, fact: str) -> None:
    with pytest.raises((UserFault, WorldFault), match=fact):
        get(tmp_path, url)


def test_a_path_is_copied(tmp_path: Path) -> None:
    (tmp_path / "a b.whl").write_bytes(DATA)

    assert get(tmp_path / "store", (tmp_path / "a b.whl").as_uri()) == DIGEST


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for localhost that only itself vouches for; its key lies beside it."""
    path = tmp_path_factory.mktemp("certificate") / "own.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    assert call([*make, *names]).code == 0
    return path


def test_a_certificate_is_trusted_only_when_it_is_named(certificate: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with serving(context) as server:
        with pytest.raises(WorldFault, match="certificate verify failed: self-signed certificate"):
            get(tmp_path, f"{server.url}/a")

        assert get(tmp_path, f"{server.url}/a", certificate=certificate) == DIGEST


def test_a_proxy_of_the_environment_is_used(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "")

    assert get(tmp_path, "http://somewhere.example/a") == DIGEST

    assert server.requests == [("http://somewhere.example/a", None)]


def test_a_proxy_that_does_not_answer_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")

    with pytest.raises(WorldFault, match=r"somewhere\.example/a") as caught:
        get(tmp_path, "http://somewhere.example/a")

    assert "refused" in str(caught.value) and "HTTPS_PROXY" in caught.value.remedy
