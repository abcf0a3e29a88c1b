"""Files of archives, good and damaged -> their content in chunks, as the standard library reads them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from installer.records import Hash, RecordEntry
from isal import isal_zlib

from images.store.blobs import CHUNK
from images.wheels import archive as members
from images.wheels.archive import UNREADABLE, WheelMember
from tests.support.hostile import changed, changes

TEXT = b"".join(b"line %d of a file\n" % number for number in range(1000))


def write(place: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, level: int = 6) -> bytes:
    with zipfile.ZipFile(place, "w", method, compresslevel=level) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method, level)
    return place.read_bytes()


def chunks(place: Path, name: str) -> Iterator[bytes]:
    with place.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        yield from WheelMember(stream, archive.getinfo(name)).chunks()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (members.hash_of("ab" * 32), "ab" * 32),  # 43 letters, without what fills it up
        (Hash("sha256", "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="), "ab" * 32),
        (Hash("sha512", "q6s"), None),
        (None, None),
    ],
)
def test_a_sha256_of_record_is_read_in_hexadecimal(said: Hash | None, expected: str | None) -> None:
    assert members.sha256_of(RecordEntry("a", said, None)) == expected
    assert members.sha256_of(None) is None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("members") / "a.zip"


@pytest.mark.parametrize("piece", [1000, members.PIECE])
@pytest.mark.parametrize("method", members.METHODS)
@pytest.mark.parametrize("level", [1, 6, 9])
@given(data=st.one_of(st.binary(max_size=1 << 12), st.binary(min_size=1, max_size=8).map(lambda data: data * 20_000)))
@settings(max_examples=10)
def test_files_are_read_as_the_standard_library_reads_them(
    place: Path, level: int, method: int, piece: int, data: bytes
) -> None:
    write(place, {"before": b"x", "ä": data, "after": b"y"}, method, level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "PIECE", piece)
        assert b"".join(chunks(place, "ä")) == data


@pytest.mark.parametrize("method", members.METHODS)
def test_a_large_file_comes_in_chunks(tmp_path: Path, method: int) -> None:
    data = TEXT * 200
    write(tmp_path / "a.zip", {"a": data}, method)

    pieces = list(chunks(tmp_path / "a.zip", "a"))

    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= CHUNK


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
        (20, 1 << 20),
        (42, 1),  # where it is
    ],
)
def test_a_directory_that_is_wrong_about_a_file_is_refused(tmp_path: Path, offset: int, value: int) -> None:
    data = bytearray(write(tmp_path / "a.zip", {"first": b"x", "thing.py": TEXT}))
    struct.pack_into("<L", data, row(data, b"thing.py") + offset, value)
    (tmp_path / "a.zip").write_bytes(data)

    with pytest.raises(UNREADABLE):
        list(chunks(tmp_path / "a.zip", "thing.py"))


def test_a_file_with_another_name_than_its_directory_has_is_refused(tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "a.zip", {"thing.py": TEXT}))
    at = data.index(b"thing.py")
    data[at : at + 5] = b"other"
    (tmp_path / "a.zip").write_bytes(data)

    with pytest.raises(zipfile.BadZipFile, match=r"another file is where its directory has 'thing\.py'"):
        list(chunks(tmp_path / "a.zip", "thing.py"))


def test_a_bomb_is_unpacked_no_further_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = list[bytes]()
    monkeypatch.setattr(isal_zlib, "crc32", lambda data, _: unpacked.append(data))
    data = bytearray(write(tmp_path / "a.zip", {"a": bytes(4 << 20)}))
    at = row(data, b"a")
    struct.pack_into("<L", data, at + 16, zlib.crc32(bytes(10)))
    struct.pack_into("<L", data, at + 24, 10)
    (tmp_path / "a.zip").write_bytes(data)

    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        assert list(chunks(tmp_path / "a.zip", "a")) == []
    assert len(unpacked) == 1


@given(at=changes)
def test_any_damaged_archive_is_read_or_refused(place: Path, at: list[tuple[int, int]]) -> None:
    data = changed(write(place, {"first": b"x" * 50, "thing.py": TEXT}), at)
    try:
        with io.BytesIO(data) as copy, zipfile.ZipFile(copy) as archive:
            infos = archive.infolist()
        place.write_bytes(data)
        with place.open("rb") as stream:
            for info in infos:
                if info.header_offset >= 0 and info.compress_size <= len(data):
                    assert sum(map(len, WheelMember(stream, info).chunks())) == info.file_size
    except (*UNREADABLE, OSError):
        pass
