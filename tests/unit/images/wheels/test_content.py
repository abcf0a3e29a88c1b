"""A wheel that arrives -> what is in its files, if they are what RECORD says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.store import Store
from images.wheels import record
from images.wheels.content import Content, content
from tests.support.elf import library
from tests.support.wheels import damaged, pack

DATA = "thing-1.0.data/data"
LARGE = library("liba.so.1") + bytes(100_000)


def read(path: Path) -> Content:
    return content(Store(path.parent / "store"), "0" * 64, path)


@pytest.mark.parametrize("algorithm", record.ALGORITHMS)
@pytest.mark.parametrize(
    ("name", "data", "other"),
    [
        ("thing/a.py", b"#!python", b"#!Python"),
        ("thing-1.0.data/scripts/run", b"#!python", b"#!Python"),
        (f"{DATA}/lib/x.so", b"1", b"2"),
        ("thing/lib/a.so", LARGE, LARGE[:-100] + b"x" * 100),
        ("thing/large", bytes(5 << 20), bytes((5 << 20) - 1) + b"x"),
    ],
)
def test_content_that_record_does_not_have_is_refused(
    tmp_path: Path, name: str, data: bytes, other: bytes, algorithm: str
) -> None:
    assert read(pack(tmp_path, {name: data}, algorithm=algorithm))
    path = pack(tmp_path, {name: data}, recorded={name: other}, algorithm=algorithm)

    with pytest.raises(WorldFault, match=rf"cannot install a wheel: {path.name} .*hash of '{name}'"):
        content(Store(tmp_path / "store"), "1" * 64, path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = damaged(pack(tmp_path, {"thing/a.py": b"x = 1\n" * 1000}), "a.py")

    with pytest.raises(WorldFault, match=rf"cannot install a wheel: {path.name} ") as caught:
        read(path)

    assert "good copy" in caught.value.remedy


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({f"{DATA}/lib/liba.so.1": library("liba.so.1")}, [("lib/liba.so.1", "liba.so.1")]),
        ({f"{DATA}/lib/b.so": b"text", f"{DATA}/lib/c.txt": b"x"}, [("lib/b.so", None)]),
        (
            {f"{DATA}/lib/liba.so": library("liba.so.1"), f"{DATA}/opt/liba.so.1.2": library("liba.so.1")},
            [("lib/liba.so", "liba.so.1"), ("opt/liba.so.1.2", "liba.so.1")],
        ),
        ({"thing/liba.so": library("liba.so.1")}, []),
        ({"thing-1.0.data/platlib/thing/liba.so": library("liba.so.1")}, []),
    ],
)
def test_libraries_below_the_prefix_are_known_by_their_names(
    tmp_path: Path, files: Mapping[str, bytes], expected: list[tuple[str, str | None]]
) -> None:
    assert [(path, name) for path, _, name in read(pack(tmp_path, files)).libraries] == expected


def test_a_wheel_is_read_once(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing/a.so": LARGE, f"{DATA}/lib/liba.so.1": library("liba.so.1")})
    first = read(path)
    path.unlink()

    assert read(path) == first


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("one/__init__.py", "one"), ("two.py", "two"), ("three.cpython-311-x86_64-linux-gnu.so", "three"),
        ("one/part.py", None), ("four/data.py", None), ("not-a-name.py", None), ("a-b/__init__.py", None),
        ("thing-1.0.data/scripts/six", None), ("data.json", None),
    ],
)  # fmt: skip
def test_modules_are_those_at_the_top(tmp_path: Path, path: str, module: str | None) -> None:
    assert read(pack(tmp_path, {"zero.py": b"", path: b""})).modules == sorted(filter(None, (module, "zero")))


def test_of_metadata_a_few_fields_are_kept(tmp_path: Path) -> None:
    said = b"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nAuthor: x\n\nVersion: 2\nThe whole README."

    found = read(pack(tmp_path, {"thing-1.0.dist-info/METADATA": said, "vendored/c-1.dist-info/METADATA": b"Name: c"}))

    assert found.metadata == {"name": "thing", "version": "1.0"}


@pytest.mark.parametrize("data", [b"PK not really", None])
def test_a_file_that_is_no_wheel_is_said_to_be_none(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    if data:
        path.write_bytes(data)

    with pytest.raises((WorldFault, OSError), match=r"thing-1\.0"):
        read(path)
