"""Downloads from servers that cut, pause, redirect or send too much."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from images.host import limits
from images.host.background import side_by_side
from images.host.errors import UserFault, WorldFault
from images.host.limits import Limit
from images.pip_config import Sources
from images.store import download
from images.store.download import download_file
from images.store.store import Store
from tests.support import locks
from tests.support.certificates import certificate as certify
from tests.support.fault_server import Reply, answering
from tests.support.web import Server, serving

DATA = b"a wheel, more or less"
BASIC = "Basic dXNlcjpzZWNyZXQ="  # user:secret
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve over plain HTTP."""
    with serving() as started:
        started.pages["/a"] = DATA
        yield started


def get(store: Path, url: str, digest: str = DIGEST, **known: Any) -> str:
    """Download; `known` is what pip's configuration says."""
    return download_file(Store(store), url, digest, "a.whl", Sources(**known), lambda _: None)


@pytest.mark.parametrize(
    ("script", "headers"),
    [
        (["503", "200"], {}),
        (["429", "200"], {"Retry-After": "0"}),
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
    ("word", "value"),
    [
        ("cut", "/a (cut short: IncompleteRead(10 bytes read, 11 more"),
        ("503", "/a (503 Server Error: Service Unavailable)"),
    ],
)
def test_what_stays_is_named_and_nothing_is_kept(server: Server, tmp_path: Path, word: str, value: str) -> None:
    server.script = [word]

    with pytest.raises(WorldFault, match="cannot download") as caught:
        get(tmp_path, f"{server.url}/a?signature=secret".replace("//", "//user:secret@"))

    assert value in caught.value.value
    assert caught.value.remedy and "secret" not in str(caught.value)
    assert len(server.requests) == 3
    assert list((tmp_path / "aside").iterdir()) == []
    assert Store(tmp_path).blob(DIGEST, "a.whl") is None


def fail() -> None:
    raise WorldFault("a fact", "a value", "a remedy")


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.mark.parametrize(("end", "error"), [(fail, WorldFault), (interrupt, KeyboardInterrupt)])
def test_a_slow_download_ends_with_what_is_beside_it(
    foreground: None, server: Server, tmp_path: Path, end: Callable[[], None], error: type[BaseException]
) -> None:
    server.pause, began = 1, time.monotonic()
    store, came = Store(tmp_path), threading.Event()

    def drip() -> None:
        download_file(store, f"{server.url}/a", DIGEST, "a.whl", Sources(), lambda _: came.set())

    def end_it() -> None:
        assert came.wait(len(DATA))
        end()

    with pytest.raises(error):
        side_by_side(locks.context(store, None, {}).progress, "downloading", [drip, end_it], 2)

    assert time.monotonic() - began < len(DATA) / 2
    assert list((tmp_path / "aside").iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/a", "http://127.0.0.1:9/a ([Errno 111]"),
        ("ftp://u:secret@host/a", "ftp://host/a (No "),
        ("http://[::1", "not a valid host"),
        ("/no/such/file", "no such file"),
    ],
)
def test_an_address_where_nobody_answers_is_named_without_its_login(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(WorldFault) as caught:
        get(tmp_path, url)

    assert said in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("place", ["http://[::1", "http://127.0.0.1:99999/", "/\xff"])
def test_a_redirect_to_an_address_that_is_none(server: Server, tmp_path: Path, place: str) -> None:
    server.script, server.headers = ["302"], {"Location": place}

    with pytest.raises(WorldFault, match=r"cannot download: http://127\.0\.0\.1:\d+/a \("):
        get(tmp_path, f"{server.url}/a")


@pytest.mark.parametrize("name", ["a#1%41 b.whl", "a\udcff"])
def test_a_path_is_copied(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(DATA)

    assert get(tmp_path / "store", (tmp_path / name).as_uri()) == DIGEST


def test_a_certificate_is_trusted_only_when_it_is_named(tmp_path: Path) -> None:
    certificate = certify(tmp_path)
    with serving(certificate) as server:
        server.pages["/a"] = DATA
        with pytest.raises(WorldFault, match="certificate verify failed: self-signed certificate"):
            get(tmp_path, f"{server.url}/a")

        assert get(tmp_path, f"{server.url}/a", certificate=str(certificate)) == DIGEST


def test_a_proxy_that_does_not_answer_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")

    with pytest.raises(WorldFault, match=r"somewhere\.example/a") as caught:
        get(tmp_path, "http://somewhere.example/a")

    assert "refused" in str(caught.value) and "HTTPS_PROXY" in caught.value.remedy


def with_login(url: str, login: str = "user:secret") -> str:
    return url.replace("//", f"//{login}@")


@pytest.mark.parametrize(
    ("url", "index", "login"),
    [
        ("http://user:secret@{}/a", None, BASIC),
        ("http://{}/a", "http://user:secret@{}/simple", BASIC),
        ("http://{}/a", None, "Basic bmV0cmM6d29yZA=="),  # that of ~/.netrc
        ("http://{}/a", "http://caf%C3%A9:@{}", "Basic Y2Fmw6k6"),
    ],
)
def test_a_password_in_the_address_or_of_the_index_comes_before_that_of_netrc(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, index: str | None, login: str
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login netrc password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    host = urlsplit(server.url).netloc

    get(tmp_path / "store", url.format(host), index=index and index.format(host))

    assert server.requests == [("/a", login)]


def test_another_server_does_not_get_the_password(server: Server, tmp_path: Path) -> None:
    with serving() as other:
        get(tmp_path, f"{server.url}/a", index=with_login(f"{other.url}/simple"))
        other.script, other.headers = ["302"], {"Location": f"{server.url}/a"}
        get(tmp_path / "redirected", f"{other.url}/b", index=with_login(f"{other.url}/simple"))

    assert other.requests == [("/b", BASIC)]
    assert server.requests == [("/a", None), ("/a", None)]


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_refused_login_is_named_without_it(server: Server, tmp_path: Path, status: str) -> None:
    server.script = [status]

    with pytest.raises(UserFault, match="refuses the login") as caught:
        get(tmp_path, f"{server.url}/a", index=with_login(f"{server.url}/simple"))

    assert caught.value.value == f"{server.url}/a ({status})"
    assert "netrc" in caught.value.remedy and "secret" not in str(caught.value)


def test_pips_proxy_comes_before_that_of_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")

    assert get(tmp_path, "http://somewhere.example/a", proxy=server.url) == DIGEST


@pytest.mark.parametrize("named", ["localhost", "localhost:{port}"])
def test_a_trusted_host_needs_no_certificate_and_another_one_does(tmp_path: Path, named: str) -> None:
    certificate = certify(tmp_path)
    with serving(certificate) as trusted, serving(certificate) as other:
        trusted.pages["/a"] = other.pages["/a"] = DATA
        known = named.format(port=urlsplit(trusted.url).port)

        assert get(tmp_path / "one", f"{trusted.url}/a", trusted=(known,)) == DIGEST

        trusted.script, trusted.headers = ["302"], {"Location": f"{other.url}/a".replace("localhost", "127.0.0.1")}
        with pytest.raises(WorldFault, match="certificate verify failed"):
            get(tmp_path / "two", f"{trusted.url}/a", trusted=(known,))


def test_a_byte_at_a_time_is_not_waited_for_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WINDOW", 0.2)
    with answering(Reply(200, bytes(10_000), pause=0.01)) as host, pytest.raises(WorldFault, match="too slow"):
        download.download_file(Store(tmp_path / "store"), f"http://{host}/a", None, "a", Sources(), lambda _: None)

    assert not list((tmp_path / "store/aside").iterdir())


class Endless(StreamRequestHandler):
    """A server whose head of an answer has no end."""

    def handle(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        with suppress(OSError):
            while not self.server.closing.wait(0.02):  # type: ignore[attr-defined]
                self.wfile.write(b"a")


def test_the_head_of_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WINDOW", 0.2)
    with ThreadingTCPServer(("127.0.0.1", 0), Endless) as server:
        server.closing = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with pytest.raises(WorldFault, match="no whole head of an answer"):
                download.download_document(
                    f"http://127.0.0.1:{server.server_address[1]}/a", Limit("", 4), Sources(), lambda _: None
                )
        finally:
            server.closing.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join(timeout=10)


class Socks(StreamRequestHandler):
    """A proxy of the kind socks5h (RFC 1928) for one request, which it answers itself with the name of the host."""

    def handle(self) -> None:
        self.rfile.read(self.rfile.read(2)[1])
        self.wfile.write(b"\5\0")
        self.rfile.read(4)
        name = self.rfile.read(self.rfile.read(1)[0])
        self.rfile.read(2)
        self.wfile.write(b"\5\0\0\1" + bytes(6))
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(name) + name)


def test_a_proxy_may_be_one_of_the_kind_socks(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with TCPServer(("127.0.0.1", 0), Socks) as proxy:
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        sources = Sources(proxy=f"socks5h://127.0.0.1:{proxy.server_address[1]}")
        digest = download.download_file(store, "http://somewhere.example/a", None, "a", sources, lambda _: None)
        thread.join(timeout=10)

    assert store.place(digest, "a").read_text() == "somewhere.example"
