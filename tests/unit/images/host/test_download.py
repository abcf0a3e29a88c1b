"""How long a busy server is waited for, and who gets a login."""

from __future__ import annotations

import threading
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer

import pytest
import requests

from images.host import download
from images.host.errors import WorldFault
from images.host.pip_config import Sources
from images.host.store import Store
from tests.support.fault_server import Reply, answering


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("86400", 60)])
def test_a_server_is_waited_for_as_long_as_it_asks_up_to_a_minute(header: str, seconds: float) -> None:
    assert download.RETRY.parse_retry_after(header) == seconds


def test_a_download_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST", 3)
    with answering(Reply(200, b"four")) as host, pytest.raises(WorldFault, match="has no end"):
        download.fetch(Store(tmp_path / "store"), f"http://{host}/a", None, "a", Sources(), lambda _: None)

    assert not list((tmp_path / "store/aside").iterdir())


def test_a_device_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="no such file"):
        download.fetch(Store(tmp_path), "file:///dev/zero", None, "a", Sources(), lambda _: None)


def test_the_innermost_cause_is_printed_without_secrets() -> None:
    try:
        try:
            raise OSError("no such name in http://user:secret@host/a?signature=secret now")
        except OSError as error:
            raise requests.ConnectionError("http://user:secret@host/a") from error
    except requests.ConnectionError as error:
        assert download.reason(error) == "no such name in http://host/a now"


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
        digest = download.fetch(store, "http://somewhere.example/a", None, "a", sources, lambda _: None)
        thread.join(timeout=10)

    assert store.place(digest, "a").read_text() == "somewhere.example"


@pytest.mark.parametrize(
    ("url", "is_trusted"),
    [
        ("https://trusted.example/x", True),
        ("https://TRUSTED.example:8443/x", True),
        ("https://trusted.example:x@other.example/x", False),
        ("https://trusted.example.other/x", False),
    ],
)
def test_a_trusted_host_is_no_user_of_another(url: str, is_trusted: bool) -> None:
    made = download.Session(Sources(trusted=("trusted.example",)))

    assert isinstance(made.get_adapter(url), download._Unverified) is is_trusted
