"""Packages that others wrote: what they bring, and what is refused of them."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.debian import deb
from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Bound
from tests.support.hostile import END, changed, entry, watched
from tests.support.packages import archived, package
from tests.support.stand_in import layer

FILES = {"./usr/bin/a": b"a program", "./usr/bin/b": "a", "./etc": None}
WHOLE = package("tool", layer(FILES), {"postinst": "#!/bin/sh\n", "conffiles": "/etc/a\n"})
BINARY = ("debian-binary", b"2.0\n")
CONTROL = layer({"./control": b"Package: tool\nVersion: 1\nArchitecture: all\n"})


def with_data(data: bytes, control: bytes = CONTROL, pack: Callable[[bytes], bytes] = lzma.compress) -> bytes:
    return archived([BINARY, ("control.tar.xz", lzma.compress(control)), ("data.tar.xz", pack(data))])


def test_a_package_says_what_it_is_and_what_it_brings() -> None:
    parsed = deb.parse_package(WHOLE, "a.deb")

    assert (parsed.name, parsed.version, parsed.listed) == ("tool", "1", "tool")
    assert {name: mode for name, (_, mode) in parsed.control.items()} == {
        "control": 0o644, "postinst": 0o755, "conffiles": 0o644,
    }  # fmt: skip
    assert parsed.text("conffiles") == "/etc/a\n"
    entries = deb.read_entries(parsed)
    assert {path: (info.isdir(), info.linkname, data) for path, info, data in entries if "/" in path} == {
        "usr/bin/a": (False, "", b"a program"), "usr/bin/b": (False, "a", b""),
    }  # fmt: skip


@pytest.mark.parametrize("sizes", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_a_member_begins_at_an_even_byte(sizes: tuple[int, ...]) -> None:
    members = [(f"part{size}", b"x" * size) for size in sizes]

    assert [*deb.read_members(archived(members))] == members


INSIDE, DATA = ("control.tar.xz", lzma.compress(CONTROL)), ("data.tar.xz", lzma.compress(layer(FILES)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin"),
        (b"<html>", "does not begin"),
        (WHOLE[:-9], "cut short"),
        (WHOLE[:90], "no header|cut short"),
        (archived([BINARY]), "its members"),
        (archived([INSIDE, BINARY, DATA]), "its members"),
        (archived([("debian-binary", b"3.0\n"), INSIDE, DATA]), "format 2"),
        (archived([BINARY, INSIDE, DATA, DATA]), "its members"),
        (archived([BINARY, INSIDE, ("data.tar.zst", b"")]), "its members"),
        (with_data(b"junk", pack=bytes), "supported by decoder|format"),
        (with_data(layer(FILES), pack=lambda data: lzma.compress(data)[:-20]), "cut short"),
        (with_data(layer(FILES), control=layer({"./control": b"Package: tool\n"})), "no Version"),
        (with_data(layer(FILES), control=layer({"./control": CONTROL.replace(b"x", b"y")})), "no Package"),
        (with_data(layer(FILES), control=layer({"./x": b""})), "no Package"),
        (
            with_data(layer(FILES), control=layer({"./control": b"Package: ../a\nVersion: 1\nArchitecture: all\n"})),
            "its name",
        ),
    ],
)
def test_what_is_no_package_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(WorldFault, match=said) as caught:
        deb.parse_package(content, "a.deb")

    assert caught.value.value.startswith("a.deb: ")
    assert caught.value.remedy


def test_a_package_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEB", Bound(100, 1 << 20))
    with pytest.raises(WorldFault, match="unpacks to more than"):
        deb.parse_package(with_data(bytes(2 << 20)), "bomb.deb")


@pytest.mark.parametrize(
    ("most", "cut", "said"), [(3, None, None), (2, None, "more than 2 bytes"), (9, -1, "cut short")]
)
def test_what_is_packed_has_an_end(most: int, cut: int | None, said: str | None) -> None:
    with pytest.raises(ValueError, match=said) if said else nullcontext():
        assert deb.unpacked(lzma.compress(b"abc")[:cut], most) == b"abc"


def test_files_stay_packed_where_only_the_control_file_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.deb").write_bytes(with_data(bytes(2 << 20)))
    whole = deb.load_package(tmp_path / "a.deb")
    monkeypatch.setattr(limits, "DEB", Bound(100, 1 << 20))

    assert deb.load_control(tmp_path / "a.deb") == replace(whole, data=b"")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (entry(b"../etc/passwd") + END, "leaves its directory"),
        (entry(b"./usr/../../x") + END, "leaves its directory"),
        (entry(b"//etc/x") + END, "is absolute"),
        (entry(b"./usr/.wh.bin") + END, "hide"),
        (entry(b"./a\nb") + END, "control character"),
        (entry(b"./dev/sda", kind=tarfile.BLKTYPE) + END, "neither file"),
        (entry(b"./dev/zero", kind=tarfile.CHRTYPE) + END, "neither file"),
        (entry(b"./run/pipe", kind=tarfile.FIFOTYPE) + END, "neither file"),
        (b"junk" * 300, "a Debian package has files"),
        (layer({"./a": b"x" * 5000})[:1024], "cut short|unexpected end"),
    ],
)
def test_files_that_no_image_can_have_are_refused(data: bytes, said: str) -> None:
    parsed = deb.parse_package(with_data(data), "a.deb")

    with pytest.raises(WorldFault, match=said):
        list(deb.read_entries(parsed))


def read_all(content: bytes) -> None:
    try:
        list(deb.read_entries(deb.parse_package(content, "a.deb")))
    except WorldFault:
        pass


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=8)
PLAIN = with_data(layer(FILES))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.one_of(st.binary(max_size=400), CHANGES.map(lambda at: changed(PLAIN, at)),
                         CHANGES.map(lambda at: changed(WHOLE, at))))  # fmt: skip
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    with watched(tmp_path, memory=128 << 20):
        read_all(content)
