"""A wheel on a server -> its metadata, of which only pieces are read."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest
import requests

from scripts.package_index import METADATA, PIECE, RemoteFile

URL = "https://index.example/torch.whl"
SAID = b"Metadata-Version: 2.1\nName: torch\n"


def wheel() -> bytes:
    """Make a wheel whose one large file comes before its metadata and is not compressed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("torch/lib/large.so", bytes(20 * PIECE))
        archive.writestr("torch-9.0.dist-info/METADATA", SAID)
    return made.getvalue()


class Session:
    """A server with one file; `ranges` says whether it answers range requests. `sent` are the bytes that it sent."""

    def __init__(self, data: bytes, ranges: bool = True) -> None:
        self.data, self.ranges, self.sent = data, ranges, 0

    def head(self, url: str, **_: object) -> requests.Response:
        return self._answer(url, 200, b"", {"Content-Length": str(len(self.data))})

    def get(self, url: str, headers: Mapping[str, str], **_: object) -> requests.Response:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", headers["Range"])
        assert asked
        piece = self.data[int(asked[1]) : int(asked[2]) + 1] if self.ranges else self.data
        self.sent += len(piece)
        return self._answer(url, 206 if self.ranges else 200, piece, {})

    def _answer(self, url: str, status: int, data: bytes, headers: Mapping[str, str]) -> requests.Response:
        answer = requests.Response()
        answer.url, answer.status_code, answer.raw = url, status, io.BytesIO(data)
        answer.headers.update(headers)
        return answer


def remote(session: Any) -> RemoteFile:
    return RemoteFile(session, URL)


def test_only_pieces_of_a_wheel_are_read() -> None:
    server = Session(wheel())

    with zipfile.ZipFile(io.BufferedReader(remote(server), PIECE)) as archive:
        (name,) = [name for name in archive.namelist() if METADATA.fullmatch(name)]
        assert archive.read(name) == SAID

    assert server.sent < 5 * PIECE < len(server.data)


def test_a_file_is_read_as_it_is() -> None:
    data = bytes(range(256)) * 3

    assert io.BufferedReader(remote(Session(data)), 100).read() == data


def test_a_server_that_sends_the_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="no range requests: 200"):
        remote(Session(wheel(), ranges=False)).read(10)
