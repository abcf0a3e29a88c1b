"""Downloads from a real local server: wrong hash, cut short, absent, interrupted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from images.host.download import fetch
from images.host.errors import WorldFault
from images.host.store import Store

DATA = b"a wheel, more or less"
DIGEST = hashlib.sha256(DATA).hexdigest()


class Wheels(BaseHTTPRequestHandler):
    """/good is whole, /short is cut after ten bytes, everything else is not there."""

    def do_GET(self) -> None:
        """Answer one request."""
        self.send_response(200 if self.path in ("/good", "/short") else 404)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA if self.path == "/good" else DATA[:10])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve on a free port."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Wheels)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_good_file_is_fetched_once(server: str, tmp_path: Path) -> None:
    store, came = Store(tmp_path), list[int]()

    assert fetch(store, f"{server}/good", DIGEST, "a.whl", None, came.append) == DIGEST
    assert fetch(store, f"{server}/good", DIGEST, "a.whl", None, came.append) == DIGEST

    assert sum(came) == len(DATA)


@pytest.mark.parametrize(
    ("path", "digest", "fact"),
    [
        ("/good", "0" * 64, "a download has another sha256 than expected"),
        ("/short", DIGEST, "cannot download"),
        ("/none", DIGEST, "cannot download"),
    ],
)
def test_a_bad_file_is_refused_and_nothing_is_kept(
    server: str, tmp_path: Path, path: str, digest: str, fact: str
) -> None:
    store = Store(tmp_path)

    with pytest.raises(WorldFault) as caught:
        fetch(store, server + path, digest, "a.whl", None, lambda _: None)

    assert caught.value.fact == fact
    assert caught.value.remedy
    assert list((tmp_path / "aside").iterdir()) == []
    assert store.blob(digest, "a.whl") is None


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match=r"127\.0\.0\.1:9"):
        fetch(Store(tmp_path), "http://127.0.0.1:9/a", DIGEST, "a.whl", None, lambda _: None)
