"""A wheel on a server -> its metadata, of which only pieces are read."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from packaging.version import Version

from scripts.versions.package_index import METADATA, PIECE, File, RemoteFile, newest, releases, yanked

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


def test_a_server_that_sends_the_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="no range requests: 200"):
        remote(Session(wheel(), ranges=False)).read(10)


DAY = datetime.date(2030, 1, 2)
WHEEL = "torch-9.0-cp311-cp311-manylinux_2_28_x86_64.whl"


def test_a_release_candidate_and_what_is_no_version_are_no_releases() -> None:
    uploaded = datetime.datetime(2030, 1, 2, tzinfo=datetime.timezone.utc)
    more = {"filename": WHEEL, "upload_time": uploaded, "is_yanked": False, "yanked_reason": None}
    listed = [SimpleNamespace(version=text, **more) for text in ("9.0", "9.1rc1", "9.2.dev1", "odd", None, "9.0.post1")]
    index: Any = SimpleNamespace(get_project_page=lambda *_, **__: SimpleNamespace(packages=listed))

    found = releases(index, "torch")

    assert found == {Version("9.0"): [File(WHEEL, DAY, None)], Version("9.0.post1"): [File(WHEEL, DAY, None)]}


@pytest.mark.parametrize(
    ("reasons", "said"),
    [(["broken"], "broken"), (["broken", "old"], "broken"), (["broken", None], None), ([None], None)],
)
def test_a_release_is_withdrawn_with_its_last_file(reasons: list[str | None], said: str | None) -> None:
    assert yanked([File(WHEEL, DAY, reason) for reason in reasons]) == said


@pytest.mark.parametrize(("days", "version"), [(0, "9.0"), (1, "9.1"), (9, "9.1")])
def test_the_newest_release_is_of_the_day_itself_or_before(days: int, version: str) -> None:
    after = [DAY + datetime.timedelta(days=number) for number in range(4)]
    found = {
        Version("9.0"): [File(WHEEL, after[0], None)],
        Version("9.1"): [File(WHEEL, after[2], None), File(WHEEL, after[1], None)],
        Version("9.2"): [File(WHEEL, after[0], "broken")],
        Version("9.3"): [File("torch-9.3-cp311-cp311-win_amd64.whl", after[0], None)],
    }

    assert newest({"torch": found}, "torch", DAY + datetime.timedelta(days=days)) == Version(version)
