"""A wheel that arrives -> what is in it; one that writes elsewhere, fills the memory or lies is refused."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Bound
from images.store.store import Store
from images.wheels import archive
from images.wheels.content import WheelContent, read_content
from tests.support.elf import library
from tests.support.wheels import WHEEL, damaged, pack

INFO, DATA = "thing-1.0.dist-info", "thing-1.0.data"
ABOUT = b"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
LARGE = library("liba.so.1") + bytes(100_000)
Files = Mapping[str, bytes]


def read(path: Path) -> WheelContent:
    return read_content(Store(path.parent / "store"), "0" * 64, path)


def refused(path: Path) -> str:
    """Return why a wheel is refused."""
    with pytest.raises(WorldFault, match=r"cannot install a wheel: \S+\.whl ") as caught:
        read(path)
    assert path.name in caught.value.value and caught.value.remedy
    return caught.value.value


def zipped(directory: Path, files: Files) -> Path:
    """Write a wheel with these files and no other."""
    path = directory / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def test_a_wheel_that_was_read_under_its_name_is_read_again_under_another(tmp_path: Path) -> None:
    path = pack(tmp_path, {f"{INFO}/METADATA": ABOUT, f"{INFO}/WHEEL": WHEEL})
    assert read(path).metadata["name"] == "thing"

    other = path.rename(tmp_path / "other-1.0-py3-none-any.whl")

    assert refused(other)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../evil.py", "leaves its directory"),
        (f"{DATA}/data/../../etc/passwd", "leaves its directory"),
        (f"{DATA}/scripts/..", "leaves its directory"),
        ("/etc/ld.so.preload", "is absolute"),
        (".wh..wh..opq", "would hide a file"),
        (DATA, f"is in no directory of {DATA}"),  # `installer` never ends there
        (f"{DATA}/data", f"is in no directory of {DATA}"),
        (f"{DATA}/elsewhere/x", f"is in no directory of {DATA}"),
        ("Thing-1.0.data/scripts/thing", f"is in no directory of {DATA}"),
        ("thing-1.0.0.data/scripts/thing", f"is in no directory of {DATA}"),
        (".data/scripts/thing", f"is in no directory of {DATA}"),
    ],
)
def test_a_file_that_has_no_place_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    said = refused(pack(tmp_path, {name: b"x"}))

    assert repr(name) in said and reason in said


@pytest.mark.parametrize(
    "files",
    [
        {"thing.data": b"x"},
        {"thing/x.data/scripts/thing": b"x"},
        {f"{INFO}/entry_points.txt": b"[plugins]\na/b = anything\n[console_scripts]\nfoo = a.b:c\n"},
        {f"{INFO}/RECORD.jws": b"a signature"},
    ],
)
def test_what_is_in_order_is_taken(tmp_path: Path, files: Files) -> None:
    assert read(pack(tmp_path, files)).metadata == {"name": "thing", "version": "1.0"}


@pytest.mark.parametrize(
    "text",
    [
        "[console_scripts]\nfoo = \n", "[console_scripts]\nfoo = aaa\n", "[console_scripts]\nfoo\n", "foo = a:b\n",
        "[console_scripts]\nfoo = a:b\nfoo = c:d\n", "[console_scripts]\nfoo = %(foo)s\n",
    ],
)  # fmt: skip
def test_an_entry_point_that_is_no_program_is_refused(tmp_path: Path, text: str) -> None:
    assert "entry_points.txt" in refused(pack(tmp_path, {f"{INFO}/entry_points.txt": text.encode()}))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({f"{INFO}/METADATA": ABOUT}, f"no {INFO}/RECORD"),
        ({f"{INFO}/RECORD": b""}, f"no {INFO}/METADATA"),
        ({f"{INFO}/RECORD": b"\xff"}, "invalid start byte"),
        ({f"{INFO}/METADATA": ABOUT, f"{INFO}/RECORD": b""}, "no strong hash"),
        ({"thing.py": b""}, "exactly one .dist-info"),
        ({"other-1.0.dist-info/RECORD": b""}, "doesn't match"),
    ],
)
def test_a_wheel_without_its_metadata_is_refused(tmp_path: Path, files: Files, reason: str) -> None:
    assert reason in refused(zipped(tmp_path, files))


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ("Name: other\nVersion: 1.0\n", "METADATA is of other 1.0"),
        ("Name: thing\nVersion: 1.1\n", "METADATA is of thing 1.1"),
        ("Name: thing\nVersion: x\n", "Invalid version"),
        ("Name: thing\n", "Invalid version"),
    ],
)
def test_a_wheel_that_is_not_what_its_name_says_is_refused(tmp_path: Path, about: str, reason: str) -> None:
    text = f"Metadata-Version: 2.1\n{about}".encode()

    assert reason in refused(pack(tmp_path, {f"{INFO}/METADATA": text}))


@pytest.mark.parametrize("name", ["thing", "thing-1.0", "-1.0-py3-none-any", "..-1-a-b-c"])
def test_a_name_that_is_no_wheels_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(pack(tmp_path, {}).rename(tmp_path / f"{name}.whl"))


@pytest.mark.parametrize("data", [b"PK not really", b"", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(data)

    assert refused(path)


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize(
    ("name", "data", "other"),
    [
        ("thing/a.py", b"#!python", b"#!Python"),
        (f"{DATA}/scripts/run", b"#!python", b"#!Python"),
        (f"{DATA}/data/lib/x.so", b"1", b"2"),
        ("thing/lib/a.so", LARGE, LARGE[:-100] + b"x" * 100),
        ("thing/large", bytes(5 << 20), bytes((5 << 20) - 1) + b"x"),
        (f"{INFO}/RECORD.jws", b"1", b"2"),
    ],
)
def test_content_that_record_does_not_have_is_refused(
    tmp_path: Path, name: str, data: bytes, other: bytes, algorithm: str
) -> None:
    for place in (tmp_path / "good", tmp_path / "bad"):
        place.mkdir()

    assert read(pack(tmp_path / "good", {name: data}, algorithm=algorithm))
    said = refused(pack(tmp_path / "bad", {name: data}, recorded={name: other}, algorithm=algorithm))
    assert f"another hash of {name!r}" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("thing.py,,\n", "no strong hash of 'thing.py'"),
        ("other.py,sha256=a,1\n", "no strong hash of 'thing.py'"),
        ("thing.py,md5=a,1\n", "no strong hash of 'thing.py'"),
        ("thing.py,sha1=a,1\n", "no strong hash of 'thing.py'"),
        ("thing.py,sha256,1\n", "RECORD cannot be read"),
        ("thing.py,sha256=a,many\n", "RECORD cannot be read"),
        ("thing.py,sha256=a\n", "RECORD cannot be read"),
        ("x" * 140_000, "RECORD cannot be read"),
    ],
)
def test_a_record_that_is_not_complete_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    files = {"thing.py": b"1", f"{INFO}/METADATA": ABOUT, f"{INFO}/WHEEL": WHEEL, f"{INFO}/RECORD": text.encode()}

    assert reason in refused(zipped(tmp_path, files))


IPEX = "intel_extension_for_pytorch"


@pytest.mark.parametrize(
    ("name", "path", "taken"),
    [
        (IPEX, f"{IPEX}-1.0.dist-info/METADATA", True), (IPEX, f"{IPEX}/version.py", True),
        (IPEX, f"{IPEX}/__init__.py", False), ("thing", "thing-1.0.dist-info/METADATA", False),
        ("thing", "thing/version.py", False),
    ],
)  # fmt: skip
def test_only_ipex_may_have_files_that_were_edited_after_record_was_written(
    tmp_path: Path, name: str, path: str, taken: bool
) -> None:
    files = {f"{name}/version.py": b"x = '2.4.0'", f"{name}/__init__.py": b"y = '2.4.0'"}
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    before = {**files, f"{name}-1.0.dist-info/METADATA": about}[path] + b"+cpu"
    wheel = pack(tmp_path, files, name, recorded={path: before})

    if not taken:
        assert f"another hash of {path!r}" in refused(wheel)
        return
    assert read(wheel)
    with archive.open_wheel(wheel) as opened:
        assert opened.rows[path] == archive.row(path, opened.read(path))


def changed(path: Path, name: str, offset: int, value: bytes) -> Path:
    """Change a field of a file's row in the directory of an archive, and the same one of its local header."""
    data = bytearray(path.read_bytes())
    row = data.index(b"PK\x01\x02")
    while bytes(data[row + 46 : row + 46 + len(name)]) != name.encode():
        row = data.index(b"PK\x01\x02", row + 4)
    (local,) = struct.unpack_from("<L", data, row + 42)
    data[row + offset : row + offset + len(value)] = value
    data[local + offset - 2 : local + offset - 2 + len(value)] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: changed(path, "thing.py", 10, b"\x63\x00"), "compressed by method 99"),
        (lambda path: changed(path, "thing.py", 6, b"\xff\x00"), "version"),
        (lambda path: damaged(path, "thing.py"), ""),
    ],
)
def test_an_archive_that_cannot_be_read_is_refused(tmp_path: Path, change: Callable[[Path], Path], reason: str) -> None:
    assert reason in refused(change(pack(tmp_path, {"thing.py": b"x = 1\n" * 1000})))


def test_a_directory_that_points_outside_of_the_archive_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing/__init__.py": b"x"})
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.rindex(b"PK\5\6") + 16, len(data) + 1)
    path.write_bytes(data)

    assert "its directory points outside of it" in refused(path)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing.py": b"1"})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("thing.py", b"2")

    assert "one name" in refused(path)


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WHEEL", Bound(30, 8 << 20))
    path = pack(tmp_path, {"thing.py": bytes(limits.WHEEL.least + 1)})

    tracemalloc.start()
    assert "would unpack to" in refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < limits.WHEEL.least // 4


def test_a_wheel_is_read_once(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing/a.so": LARGE})
    first = read(path)
    path.unlink()

    assert read(path) == first


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("one/__init__.py", "one"), ("two.py", "two"), ("three.cpython-311-x86_64-linux-gnu.so", "three"),
        ("one/part.py", None), ("not-a-name.py", None), ("a-b/__init__.py", None), (f"{DATA}/scripts/six", None),
        ("data.json", None),
    ],
)  # fmt: skip
def test_modules_are_those_at_the_top(tmp_path: Path, path: str, module: str | None) -> None:
    assert read(pack(tmp_path, {"zero.py": b"", path: b""})).modules == sorted(filter(None, (module, "zero")))


def test_of_metadata_a_few_fields_are_kept(tmp_path: Path) -> None:
    files = {
        f"{INFO}/METADATA": ABOUT + b"Author: x\n\nVersion: 2\nThe README.",
        "c-1.dist-info.d/METADATA": b"Name: c",
    }

    assert read(pack(tmp_path, files)).metadata == {"name": "thing", "version": "1.0"}
