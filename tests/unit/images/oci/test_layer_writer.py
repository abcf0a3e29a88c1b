"""Files -> tar: sameness, hard links, links of the base."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import WorldFault
from images.host.process import STOPS, Stopped
from images.oci.layer import Directories, Written
from images.oci.layer_writer import END, EPOCH, LayerWriter, header
from images.store.blobs import CHUNK

Files = list[tuple[str, bytes, int]]


def write(path: Path, files: Files, below: Directories | None = None) -> Written:
    with LayerWriter(path, below or Directories()) as layer:
        for name, data, mode in files:
            layer.file(name, data, mode)
        return layer.finish()


def read(path: Path) -> dict[str, tarfile.TarInfo]:
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    return {info.name: info for info in tarfile.open(fileobj=io.BytesIO(data))}


def test_a_layer_that_is_not_wanted_any_more_is_not_written_to_its_end(tmp_path: Path) -> None:
    stop, written = threading.Event(), []

    def task() -> None:
        STOPS.set((stop,))
        with LayerWriter(tmp_path / "a", Directories()) as layer:
            for number in range(9):
                layer.file(f"{number}", bytes([number]) * CHUNK)
                written.append(number)
                if number == 3:
                    stop.set()

    with pytest.raises(Stopped):
        copy_context().run(task)
    assert written == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("lib/x86_64-linux-gnu/libc.so", "usr/lib/x86_64-linux-gnu/libc.so"),
        ("usr/lib/a", "usr/lib/a"),
        ("library/a", "library/a"),
        ("lib", "lib"),
        ("usr/X11/bin/x", "bin/x"),
    ],
)
def test_links_of_the_base_are_followed(path: str, expected: str) -> None:
    assert Directories(links={"lib": "usr/lib", "usr/X11": ""}).resolve(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "a/../../b",
        ".wh..wh..opq",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    with LayerWriter(tmp_path / "a", Directories(links={"lib": "usr/lib"})) as layer:
        layer.source = "a wheel"
        for add in (lambda: layer.file(path, b"x"), lambda: layer.link(path, "x"), lambda: layer.whiteout(path)):
            with pytest.raises(WorldFault, match=r"a path cannot be in a layer: .* \(a wheel\)"):
                add()
        if path:
            with pytest.raises(WorldFault, match="a path cannot be in a layer"):
                layer.directory(path)


def test_a_link_of_the_base_to_a_directory_stays_one(tmp_path: Path) -> None:
    with LayerWriter(tmp_path / "a", Directories(links={"run": "var/run"})) as layer:
        layer.directory("run/sshd")
        layer.finish()

    assert [*read(tmp_path / "a")] == ["var", "var/run", "var/run/sshd"]


def test_one_path_has_one_file(tmp_path: Path) -> None:
    with LayerWriter(tmp_path / "a", Directories()) as layer:
        layer.file("a", b"1")
        layer.file("a", b"1")
        for add in (lambda: layer.file("a", b"2"), lambda: layer.file("a", b"1", 0o755), lambda: layer.link("a", "b")):
            with pytest.raises(WorldFault, match="two different files have one path: /a"):
                add()
        layer.finish()

    assert [*read(tmp_path / "a")] == ["a"]


def test_a_large_file_is_written_by_the_hash_that_it_is_said_to_have_and_read_once(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    chunks = iter([data[:9], data[9:]])

    with LayerWriter(tmp_path / "streamed", Directories()) as layer:
        for name in ("a", "b"):
            layer.stream(name, chunks, hashlib.sha256(data).hexdigest(), len(data), 0o755)
        written = layer.finish()

    assert written == write(tmp_path / "whole", [("a", data, 0o755), ("b", data, 0o755)])


def test_of_a_file_that_is_there_nothing_is_read(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"1").hexdigest()
    with LayerWriter(tmp_path / "a", Directories()) as layer:
        layer.file("a", b"1")
        for name in ("a", "b"):
            layer.stream(name, (pytest.fail("it was read") for _ in "1"), digest, 1)


@pytest.mark.parametrize(("path", "target"), [
    ("a", "b"), ("a", "t" * 100), ("a", "t" * 101), ("l" * 101, "t"), ("ü", "b"), ("a", "ü"),
])  # fmt: skip
def test_the_bytes_of_a_link_are_those_of_tarfile(tmp_path: Path, path: str, target: str) -> None:
    with LayerWriter(tmp_path / "a", Directories()) as layer:
        layer.link(path, target)
        layer.finish()

    [info] = read(tmp_path / "a").values()
    assert (info.type, info.name, info.linkname, info.mtime) == (tarfile.SYMTYPE, path, target, EPOCH)
    packed = zstandard.ZstdDecompressor().stream_reader((tmp_path / "a").read_bytes()).read()
    info.pax_headers = {}
    assert packed.startswith(info.tobuf(tarfile.PAX_FORMAT))


def test_what_is_hidden_of_the_base_is_so_where_its_links_lead(tmp_path: Path) -> None:
    with LayerWriter(tmp_path / "a", Directories(links={"lib": "usr/lib"})) as layer:
        for path in ("lib/a/b", "top"):
            layer.whiteout(path)
        layer.finish()

    hidden = [info for info in read(tmp_path / "a").values() if not info.isdir()]
    assert {info.name: (info.size, info.mode) for info in hidden} == dict.fromkeys(
        ("usr/lib/a/.wh.b", ".wh.top"), (0, 0o644)
    )


ENTRIES = (
    ("short", b"x", 0o644), ("executable", b"x", 0o755), ("n" * 99, b"", 0o644), ("n" * 100, b"", 0o644),
    ("n" * 101, b"", 0o644), ("d" * 99 + "/f", b"", 0o644), ("d" * 100 + "/f", b"", 0o644), ("ü", b"x", 0o4755),
)  # fmt: skip


@pytest.mark.parametrize(("path", "data", "mode"), ENTRIES, ids=range(len(ENTRIES)))
def test_the_bytes_are_those_of_tarfile(tmp_path: Path, path: str, data: bytes, mode: int) -> None:
    write(tmp_path / "a", [(path, data, mode), ("linked", data, mode)])
    packed = zstandard.ZstdDecompressor().stream_reader((tmp_path / "a").read_bytes()).read()

    file = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(packed)) as source, tarfile.open(fileobj=file, mode="w") as target:
        for info in source:
            info.pax_headers = {}
            target.addfile(info, source.extractfile(info) if info.isreg() else None)
    assert packed == file.getvalue()


names = st.lists(st.sampled_from(["a", "b", "lib", "ü", "x" * 90]), min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(names, st.binary(max_size=40), max_size=6))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    files = {
        name: data for name, data in files.items() if not any(o != name and o.startswith(name + "/") for o in files)
    }
    directory = tmp_path_factory.mktemp("layer")
    listed = [(name, data, 0o644) for name, data in files.items()]

    first, second = write(directory / "a", listed), write(directory / "b", listed)

    assert first == second
    data = zstandard.ZstdDecompressor().stream_reader((directory / "a").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {i.name: tar.extractfile(i.name) for i in tar if not i.isdir()}
        assert {name: file.read() for name, file in members.items() if file} == files


@pytest.mark.parametrize(
    "changes",
    [{}, {"size": 1 << 34}, {"uid": 1 << 22}, {"gid": 1 << 22}, {"mode": 0o1777}, {"kind": tarfile.DIRTYPE},
     {"path": "n\u00e9"}, {"path": "a" * 101}, {"kind": tarfile.SYMTYPE, "target": "b" * 101}],
)  # fmt: skip
def test_a_header_says_what_tarfile_reads(changes: dict[str, Any]) -> None:
    said = {"path": "a", "mode": 0o644, "uid": 1, "gid": 2, "kind": tarfile.REGTYPE, "size": 0, "target": "", **changes}

    with tarfile.open(fileobj=io.BytesIO(header(**said) + END), ignore_zeros=True) as tar:
        info = tar.next()

    assert info and {"path": info.name, "mode": info.mode, "uid": info.uid, "gid": info.gid, "kind": info.type,
                     "size": info.size, "target": info.linkname} == said  # fmt: skip
    assert info.mtime == EPOCH
