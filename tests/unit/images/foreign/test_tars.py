"""Tars that others wrote: what would take memory or time without end is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given

from images.foreign import files, tars
from images.foreign.tars import Tar
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.host.limits import Bound
from tests.support import hostile
from tests.support.hostile import END, entry, header, named, pax


def read(data: bytes) -> list[str]:
    """Read a tar through, with the content of its files."""
    names, tar = [], Tar(io.BytesIO(data))
    for info in tar:
        names.append(info.name)
        tar.read()
    return names


SPARSE_1_0 = pax(b"GNU.sparse.major", b"1") + pax(b"GNU.sparse.minor", b"0") + pax(b"GNU.sparse.name", b"a")
CASES = {
    "no tar": b"x" * 2000,
    "cut short": entry(b"a", b"x" * 600)[:900],
    "a file of 2^95 bytes": header(b"a", size=b"\x80" + b"\xff" * 11) + END,
    "a file of 2^33 bytes": header(b"a", size=b"7" * 11) + END,
    "a size below zero": header(b"a", size=b"\xff" * 12) + END,
    "records of a size below zero": entry(b"x", pax(b"size", b"-512"), b"x") + entry(b"a") + END,
    "a size that leads to the beginning": entry(b"x", pax(b"size", b"-1536"), b"x") + entry(b"a") + END,
    "a long name of 1 GiB": header(b"././@LongLink", b"L", size=b"%o" % (1 << 30)) + b"a" * 4096,
    "records of 1 GiB": header(b"x", b"x", size=b"%o" % (1 << 30)) + b"a" * 4096,
    "records that are no numbers": entry(b"x", pax(b"GNU.sparse.map", b"a,b"), b"x") + entry(b"a") + END,
    "a number of 5000 digits": entry(b"x", pax(b"GNU.sparse.map", b"9" * 5000), b"x") + entry(b"a") + END,
    "a name of 70 kB": named(b"a" * 70_000) + END,
    "1500 directories": named(b"a/" * 1500 + b"b") + END,
    "a path of 70 kB": named(b"a/" * 35_000) + END,
    "a link to 70 kB": named(b"a", kind=b"2", link=b"a/" * 35_000) + END,
    "a name with a zero byte": named(b"a\0b") + END,
    "a time that is no number": entry(b"x", pax(b"mtime", b"nan"), b"x") + entry(b"a") + END,
    "a time without end": entry(b"x", pax(b"mtime", b"1e400"), b"x") + entry(b"a") + END,
    "4000 long names of one entry, of 1 kB": entry(b"././@LongLink", b"a" * 1000, b"L") * 4000 + entry(b"a") + END,
    "records of all entries": entry(b"x", pax(b"path", b"b"), b"g") + entry(b"a") + END,
    "records of all entries, with more and more": b"".join(
        entry(b"x", pax(b"k%d" % number, b"a" * 500_000), b"g") + entry(b"a") for number in range(40)
    )
    + END,
    "a sparse file": header(b"a", b"S", size=b"0") + END,
    "a sparse file, as pax writes it": entry(b"x", SPARSE_1_0, b"x") + entry(b"a", b"1\n0\n0\n") + END,
    "a sparse file, as pax wrote it": entry(b"x", pax(b"GNU.sparse.map", b"0,1"), b"x") + entry(b"a", b"1") + END,
}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("a size below zero", "has -1 bytes"),
        ("a size that leads to the beginning", "-1536"),
        ("a long name of 1 GiB", "a header says 1073741824 bytes"),
        ("records of 1 GiB", "a header says 1073741824 bytes"),
        ("a sparse file", tars.SPARSE),
        ("a sparse file, as pax writes it", tars.SPARSE),
        ("records of all entries", "for all entries that follow"),
    ],
)
def test_a_header_is_refused_before_it_is_read_on(case: str, words: str) -> None:
    with pytest.raises(tarfile.ReadError, match=words):
        read(CASES[case])


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(tarfile.ReadError):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_what_linux_allows_is_read() -> None:
    long = b"a/" * 180 + (b"b" * 255 + b"/") * 10 + b"b" * 79
    comment = entry(b"pax_global_header", pax(b"comment", b"of git archive"), b"g")
    data = comment + named(long) + named(b"c" * 255) + entry(b"\xff") + entry(b"../d", kind=b"2", link=b"/") + END

    assert read(data) == [long.decode(), "c" * 255, "\udcff", "../d"]


@pytest.mark.parametrize("data", [b"", bytes(512), END])
def test_a_stream_without_a_byte_is_a_tar_without_entries(data: bytes) -> None:
    assert read(data) == []


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_content_is_read_in_any_pieces_or_not_at_all(piece: int) -> None:
    contents = [b"", b"x" * 512, b"y" * 700]
    tar = Tar(io.BytesIO(b"".join(entry(b"a", data) + entry(b"b", data) for data in contents) + END))

    read = [b"".join(iter(lambda: tar.read(piece), b"")) for info in tar if info.name == "a"]

    assert read == contents


WHOLE = entry(b"a", b"x" * 600) + named(b"b/" * 90 + b"c", b"y" * 700)
LAST = 3 * 512  # where the second entry begins, with the records of its name


@pytest.mark.parametrize(
    ("size", "is_cut"),
    [
        (900, True),  # in the content of the first
        (LAST, False),  # between two entries, which nobody can tell
        (LAST + 1, True),  # in a header, that of the records
        (LAST + 512, True),  # behind it
        (LAST + 600, True),
        (LAST + 1024, True),  # before the header of the entry
        (LAST + 1100, True),
        (LAST + 1536, True),
        (len(WHOLE) - 400, True),
        (len(WHOLE) - 1, True),  # in the zeros that fill the last block
        (len(WHOLE), False),
        (len(WHOLE) + 100, False),  # in the zeros at the end
        (len(WHOLE) + 512, False),
        (len(WHOLE) + 1024, False),
    ],
)
def test_a_tar_on_disk_that_is_cut_short_is_told_from_others(size: int, is_cut: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes((WHOLE + END)[:size])

    if is_cut:
        with pytest.raises(WorldFault, match="cut short"):
            files.open_tar(path, "it", "", plain=False)
    else:
        assert files.open_tar(path, "it", "", plain=False).has("b/" * 90 + "c") == (size != LAST)


@pytest.mark.parametrize(("most", "is_read"), [(3, True), (2, False)])
def test_a_tar_of_too_many_entries_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_read: bool
) -> None:
    (tmp_path / "a.tar").write_bytes(entry(b"a") + entry(b"b") + entry(b"c") + END)
    monkeypatch.setattr(files, "MOST", most)

    if is_read:
        assert files.open_tar(tmp_path / "a.tar", "it", "", plain=True).has("c")
    else:
        with pytest.raises(UserFault, match="cannot read the archive"):
            files.open_tar(tmp_path / "a.tar", "it", "", plain=True)


@pytest.mark.parametrize(
    ("kind", "target"), [(b"2", b"../1/layer.tar"), (b"2", b"/1/layer.tar"), (b"1", b"1/layer.tar")]
)
def test_a_file_is_read_through_a_link(kind: bytes, target: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(entry(b"1/layer.tar", b"x" * 600) + entry(b"2/layer.tar", b"", kind, target) + END)

    assert files.open_tar(tmp_path / "a.tar", "it", "", plain=True).read("2/layer.tar", 600) == b"x" * 600


@given(hostile.tars)
def test_any_tar_is_read_or_refused(data: bytes) -> None:
    try:
        read(data)
    except tarfile.TarError:
        pass


# Archives that would fill the memory or never end are refused.


def tar(*infos: tarfile.TarInfo) -> bytes:
    """Return a tar whose members are empty, whatever they say."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for info in infos:
            size, info.size = info.size, 0
            file.addfile(info)
            info.size = size
    return out.getvalue()


def read_archive(path: Path) -> list[tars.ArchiveFile]:
    return list(tars.read_files(path, lambda name: True))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_every_compression_is_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a"
    path.write_bytes(compress(tar(tarfile.TarInfo("./top/a"), tarfile.TarInfo("top/b/c"))))

    assert read_archive(path) == [("a", b"", 0o644), ("b/c", b"", 0o644)]


@pytest.mark.parametrize(
    ("bare", "paths"), [(True, ["a", "a/b", "a/c"]), (False, ["a/c"])], ids=["with and without", "with"]
)
def test_an_archive_may_be_read_that_has_no_top_directory(tmp_path: Path, bare: bool, paths: list[str]) -> None:
    top, link = tarfile.TarInfo("top"), tarfile.TarInfo("top/a/link")
    top.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "c"
    (tmp_path / "t").write_bytes(tar(top, link, *map(tarfile.TarInfo, ("./a", "a/b", "top/a/c", "b"))))

    taken = tars.read_files(tmp_path / "t", lambda name: f"{name}/".startswith("a/"), bare=bare)

    assert [member.path for member in taken] == paths


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("name", ["top/../../a", "/a", "top/.wh.a"])
def test_an_archive_with_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str, asked: bool) -> None:
    (tmp_path / "t").write_bytes(tar(tarfile.TarInfo("top/a"), tarfile.TarInfo(name)))

    with pytest.raises(ValueError, match="the name '"):
        list(tars.read_files(tmp_path / "t", lambda _: asked))


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_bomb_is_neither_read_nor_skipped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes, asked: bool
) -> None:
    monkeypatch.setattr(limits, "WHEEL", Bound(30, 4 << 20))
    info = tarfile.TarInfo("top/a")
    info.type, info.size = kind, 10 * limits.WHEEL.least
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(10):
            file.write(bytes(limits.WHEEL.least // 8))

    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than" if kind == tarfile.REGTYPE else "a header says"):
        list(tars.read_files(path, lambda _: asked))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * limits.WHEEL.least


@pytest.mark.parametrize("most", [1, 300, 5000])
def test_a_stream_may_give_less_than_it_is_asked_for(most: int) -> None:
    stream = io.BytesIO(entry(b"a", b"1" * 1000) + entry(b"b", b"2") + END)
    tar = Tar(SimpleNamespace(read=lambda count: stream.read(min(count, most))))

    assert [(info.name, tar.read()) for info in tar] == [("a", b"1" * 1000), ("b", b"2")]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_a_plain_tar_is_of_either_format(form: int) -> None:
    """GNU's has no prefix of a name, and bytes of its own in that field where it says more."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=form) as writer:
            writer.addfile(tarfile.TarInfo("manifest.json"))
        data = file.getvalue()

    assert [info.name for info in Tar(io.BytesIO(data), plain=True)] == ["manifest.json"]
