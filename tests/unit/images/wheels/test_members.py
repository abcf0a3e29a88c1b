"""Files of archives, good and damaged -> their content, at once or in chunks, as the standard library reads them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from images.host.store import CHUNK
from images.wheels import members
from images.wheels.archive import UNREADABLE
from images.wheels.members import Member
from tests.support.hostile import changed, changes

TEXT = b"".join(b"line %d of a file\n" % number for number in range(1000))


def write(place: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, level: int = 6) -> bytes:
    with zipfile.ZipFile(place, "w", method, compresslevel=level) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method, level)
    return place.read_bytes()


def read(place: Path, name: str) -> bytes:
    """Read a file in both ways."""
    with place.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        member = Member(stream, archive.getinfo(name))
        chunks = list(member.chunks())
        assert all(len(chunk) <= max(members.SMALL, CHUNK) for chunk in chunks)
        assert member.read() == b"".join(chunks)
        return b"".join(chunks)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("members") / "a.zip"


@pytest.mark.parametrize("small", [0, members.SMALL])
@pytest.mark.parametrize("method", members.METHODS)
@pytest.mark.parametrize("level", [1, 6, 9])
@given(data=st.one_of(st.binary(max_size=1 << 12), st.binary(min_size=1, max_size=8).map(lambda data: data * 20_000)))
@settings(max_examples=10)
def test_files_are_read_as_the_standard_library_reads_them(
    place: Path, level: int, method: int, small: int, data: bytes
) -> None:
    write(place, {"before": b"x", "ä": data, "after": b"y"}, method, level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "SMALL", small)
        patch.setattr(members, "PIECE", 1000)
        patch.setattr(members, "CHUNK", 5000)
        assert read(place, "ä") == data


@pytest.mark.parametrize("method", members.METHODS)
def test_a_large_file_comes_in_chunks(tmp_path: Path, method: int) -> None:
    data = TEXT * 1000
    write(tmp_path / "a.zip", {"a": data}, method)

    with (tmp_path / "a.zip").open("rb") as stream, zipfile.ZipFile(stream) as archive:
        chunks = list(Member(stream, archive.getinfo("a")).chunks())

    assert b"".join(chunks) == data
    assert max(map(len, chunks)) <= CHUNK


def test_nothing_is_read_of_a_file_before_somebody_asks(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", {"a": TEXT})
    with (tmp_path / "a.zip").open("rb") as stream, zipfile.ZipFile(stream) as archive:
        member = Member(stream, archive.getinfo("a"))
        (tmp_path / "a.zip").write_bytes(b"")

        chunks = member.chunks()
        with pytest.raises(EOFError):
            next(chunks)


def row(data: bytes | bytearray, name: bytes) -> int:
    """Return where the row of a file is in the directory of an archive."""
    return data.rindex(name) - 46


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (16, 0),  # its checksum
        (24, len(TEXT) - 1),  # its size
        (24, len(TEXT) + 1),
        (20, 10),  # its size as it is packed
        (42, 1),  # where it is
    ],
)
@pytest.mark.parametrize("small", [0, members.SMALL])
def test_a_directory_that_is_wrong_about_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, value: int, small: int
) -> None:
    monkeypatch.setattr(members, "SMALL", small)
    data = bytearray(write(tmp_path / "a.zip", {"first": b"x", "thing.py": TEXT}))
    struct.pack_into("<L", data, row(data, b"thing.py") + offset, value)
    (tmp_path / "a.zip").write_bytes(data)

    with pytest.raises(UNREADABLE):
        read(tmp_path / "a.zip", "thing.py")


def test_a_file_with_another_name_than_its_directory_has_is_refused(tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "a.zip", {"thing.py": TEXT}))
    at = data.index(b"thing.py")
    data[at : at + 5] = b"other"
    (tmp_path / "a.zip").write_bytes(data)

    with pytest.raises(zipfile.BadZipFile, match=r"has 'thing\.py' where the file is 'other\.py'"):
        read(tmp_path / "a.zip", "thing.py")


@pytest.mark.parametrize("small", [0, members.SMALL])
def test_a_bomb_is_unpacked_no_further_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(members, "SMALL", small)
    data = bytearray(write(tmp_path / "a.zip", {"a": bytes(64 << 20)}))
    at = row(data, b"a")
    struct.pack_into("<LL", data, at + 16, zlib.crc32(bytes(10)), struct.unpack_from("<L", data, at + 20)[0])
    struct.pack_into("<L", data, at + 24, 10)
    (tmp_path / "a.zip").write_bytes(data)

    with (tmp_path / "a.zip").open("rb") as stream, zipfile.ZipFile(stream) as archive:
        member = Member(stream, archive.getinfo("a"))
        with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
            assert sum(map(len, member.chunks())) <= 11


@given(at=changes, small=st.sampled_from([0, members.SMALL]))
def test_any_damaged_archive_is_read_or_refused(place: Path, at: list[tuple[int, int]], small: int) -> None:
    data = changed(write(place, {"first": b"x" * 50, "thing.py": TEXT}), at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "SMALL", small)
        try:
            with io.BytesIO(data) as copy, zipfile.ZipFile(copy) as archive:
                infos = archive.infolist()
            place.write_bytes(data)
            with place.open("rb") as stream:
                for info in infos:
                    if info.header_offset >= 0 and info.compress_size <= len(data):
                        assert sum(map(len, Member(stream, info).chunks())) == info.file_size
        except (*UNREADABLE, OSError):
            pass
