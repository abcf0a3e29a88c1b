"""Downloads from a local server that sends too much, too slowly or no end, and through a proxy."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer

import pytest

from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.servers import download
from images.servers.pip_config import Sources
from images.store.store import Store
from tests.support.fault_server import Reply, answering

FOUR = hashlib.sha256(b"four").hexdigest()


@pytest.mark.parametrize(("digest", "promised"), [(None, None), (FOUR, None), (FOUR, 3)])
def test_a_download_has_an_end_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None, promised: int | None
) -> None:
    monkeypatch.setattr(limits, "UNKNOWN", Limit("", 3))
    monkeypatch.setattr(limits, "KNOWN", Limit("", 4 if promised else 3))
    store = Store(tmp_path / "store")
    with answering(Reply(200, b"four")) as host, pytest.raises(WorldFault) as caught:
        download.download_file(store, f"http://{host}/a", digest, "a", Sources(), lambda _: None, promised)

    assert caught.value.kind == download.TOO_LONG
    assert not list((tmp_path / "store/aside").iterdir()) and not list((tmp_path / "store/blobs").iterdir())


def test_a_document_is_kept_nowhere() -> None:
    with answering(Reply(200, b"four")) as host:
        assert download.download_document(f"http://{host}/a", Limit("", 4), Sources(), lambda _: None) == b"four"
        with pytest.raises(WorldFault) as caught:
            download.download_document(f"http://{host}/a", Limit("", 3), Sources(), lambda _: None)

    assert caught.value.kind == download.TOO_LONG


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
