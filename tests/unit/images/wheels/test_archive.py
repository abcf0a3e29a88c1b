"""Wheels that would write elsewhere, fill the memory or end in a traceback are refused, with the reason."""

from __future__ import annotations

import hashlib
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from images.foreign import bounds
from images.host.errors import WorldFault
from images.wheels import archive, record
from tests.support.wheels import WHEEL, pack

INFO, DATA = "thing-1.0.dist-info", "thing-1.0.data"
Files = Mapping[str, bytes]


def refused(path: Path) -> str:
    """Return why a wheel is refused."""
    with pytest.raises(WorldFault, match=r"cannot install a wheel: \S+\.whl ") as caught, archive.opened(path) as one:
        for name in one.names:
            one.read(name)
    assert caught.value.exit_code == 1
    return caught.value.value


def scripts(text: str) -> Files:
    return {f"{INFO}/entry_points.txt": text.encode()}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../evil.py", "leaves its directory"),
        ("thing/../../evil.py", "leaves its directory"),
        (f"{DATA}/data/../../etc/passwd", "leaves its directory"),
        (f"{DATA}/scripts/..", "leaves its directory"),
        ("/etc/ld.so.preload", "is absolute"),
        ("thing//evil.py", "has an empty part"),
        ("./evil.py", "has an empty part"),
        ("thing/.wh.nn.py", "would hide a file"),
        (".wh..wh..opq", "would hide a file"),
        ("thing/a\nb.py", "has a control character"),
        ("thing/" + "x" * 256, "is too long"),
        ("x/" * 2100 + "y", "is too long"),
    ],
)
def test_a_name_that_no_layer_has_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    said = refused(pack(tmp_path, {name: b"x"}))

    assert repr(name) in said and reason in said


@pytest.mark.parametrize("name", [DATA, f"{DATA}/data", f"{DATA}/elsewhere/x"])
def test_a_file_beside_the_schemes_is_refused(tmp_path: Path, name: str) -> None:
    assert f"'{name}' is in no directory of {DATA}" in refused(pack(tmp_path, {name: b"x"}))


@pytest.mark.parametrize("head", ["Thing-1.0.data", "thing-1.0.0.data", "other-1.0.data", ".data"])
def test_another_directory_of_data_is_refused(tmp_path: Path, head: str) -> None:
    said = refused(pack(tmp_path, {f"{head}/scripts/thing": b"#!python\n"}))

    assert f"'{head}/scripts/thing' is in another directory of data than {DATA}" in said


@pytest.mark.parametrize("name", ["thing.data", "thing/x.data/scripts/thing"])
def test_data_of_a_package_is_its_own(tmp_path: Path, name: str) -> None:
    assert archive.check(pack(tmp_path, {name: b"x"})) > 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[console_scripts]\nfoo = \n", "is not MODULE:FUNCTION"),
        ("[console_scripts]\nfoo = aaa\n", "is not MODULE:FUNCTION"),
        ("[console_scripts]\nfoo\n", "cannot be read"),
        ("foo = a:b\n", "cannot be read"),
        ("[console_scripts]\nfoo = a:b\nfoo = c:d\n", "cannot be read"),
        ("[console_scripts]\nfoo = %(foo)s\n", "cannot be read"),
        ("[console_scripts]\n../sbin/sshd = a:b\n", "'../sbin/sshd' is not the name of a file"),
        ("[gui_scripts]\n/usr/sbin/sshd = a:b\n", "is not the name of a file"),
        ("[console_scripts]\na/b = a:b\n", "'a/b' is not the name of a file"),
        ("[console_scripts]\n.. = a:b\n", "is not the name of a file"),
        ("[console_scripts]\n.wh.sh = a:b\n", "is not the name of a file"),
    ],
)
def test_an_entry_point_that_is_no_program_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in refused(pack(tmp_path, scripts(text)))


def test_entry_points_for_others_are_not_ours_to_read(tmp_path: Path) -> None:
    assert archive.check(pack(tmp_path, scripts("[plugins]\na/b = anything\n[console_scripts]\nfoo = a.b:c\n"))) == 3


@pytest.mark.parametrize("files", [{}, {f"{INFO}/entry_points.txt": b"\xff"}, {f"{INFO}/RECORD": b"\xff"}])
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, files: Files) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in {f"{INFO}/METADATA": b"", f"{INFO}/RECORD": b"", f"{INFO}/WHEEL": WHEEL, **files}.items():
            file.writestr(name, data)

    assert refused(path)


@pytest.mark.parametrize("lacking", archive.NEEDED)
def test_a_wheel_without_its_metadata_is_refused(tmp_path: Path, lacking: str) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name in {*archive.NEEDED} - {lacking}:
            file.writestr(f"{INFO}/{name}", b"")

    assert f"no {lacking}" in refused(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_without_bounds_is_refused(tmp_path: Path, method: int) -> None:
    assert f"compressed by method {method}" in refused(pack(tmp_path, {"thing.py": b"x" * 99}, method=method))


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
    ("offset", "value", "reason"),
    [
        (8, b"\x01\x00", "is encrypted"),
        (8, b"\x20\x00", "is patched data"),
        (8, b"\x40\x00", "is encrypted"),
        (10, b"\x63\x00", "compressed by method 99"),
        (6, b"\xff\x00", "version"),
    ],
)
def test_an_archive_that_python_cannot_read_is_refused(tmp_path: Path, offset: int, value: bytes, reason: str) -> None:
    path = changed(pack(tmp_path, {"thing.py": b"x" * 99}), "thing.py", offset, value)

    assert reason in refused(path)


def test_a_directory_that_points_before_the_archive_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing/__init__.py": b"x"})
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.rindex(b"PK\5\6") + 16, len(data) + 1)
    path.write_bytes(data)

    assert "its directory points outside of it" in refused(path)


@pytest.mark.parametrize("offset", [-1, 10, 2**63 - 1])
def test_a_file_whose_header_is_not_before_the_directory_is_refused(offset: int) -> None:
    """One of 2**63 - 1 is what zip64 can say, and an OSError (EINVAL) when it is sought."""
    with io.BytesIO() as file, zipfile.ZipFile(file, "w") as whole:
        whole.writestr("a", b"x")
        info = whole.infolist()[0]
        archive.require_inside(whole, info)
        info.header_offset = offset if offset != 10 else whole.start_dir
        with pytest.raises(zipfile.BadZipFile, match="points outside of it for 'a'"):
            archive.require_inside(whole, info)
        info.header_offset = 0


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing.py": bytes(range(256))})
    data = bytearray(path.read_bytes())
    start = data.index(b"thing.py") + len("thing.py")
    data[start : start + 20] = b"\xff" * 20
    path.write_bytes(data)

    assert refused(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing.py": bytes(bounds.WHEEL.least + 1)})

    tracemalloc.start()
    said = refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "would unpack to" in said
    assert peak < 1 << 24


def test_a_bomb_that_hides_its_size_unpacks_to_no_more_than_it_says(tmp_path: Path) -> None:
    said, bomb = b"x" * 10, zlib.compressobj(9, wbits=-15)
    path = pack(tmp_path, {"thing.py": said})
    packed = bomb.compress(said + bytes(64 << 20)) + bomb.flush()
    with zipfile.ZipFile(path) as file:
        names = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("thing.py", packed)
        for name in names.keys() - {"thing.py"}:
            file.writestr(name, names[name])
    changed(path, "thing.py", 10, struct.pack("<H", zipfile.ZIP_DEFLATED))
    changed(path, "thing.py", 24, struct.pack("<L", len(said)))

    tracemalloc.start()
    assert "Bad CRC-32" in refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1 << 24


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing.py": b"1"})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("thing.py", b"2")

    assert "one name" in refused(path)


def test_two_files_that_go_to_one_place_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path, {"thing.py": b"1", f"{DATA}/platlib/thing.py": b"2"})

    assert f"two files go to the place of '{DATA}/platlib/thing.py'" in refused(path)


@pytest.mark.parametrize("name", ["thing", "thing-1.0", "thing-1.0-py3-none-any", "-1.0-py3-none-any", "..-1-a-b-c"])
def test_a_name_that_is_no_wheels_is_refused(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path, {}).rename(tmp_path / f"{name}.whl")

    if name != "thing-1.0-py3-none-any":
        assert refused(path)
    else:
        assert archive.check(path) == 2


IPEX = "intel_extension_for_pytorch"


def edited(directory: Path, name: str, path: str) -> Path:
    """Make a wheel in which one file is four bytes shorter than RECORD says, as in IPEX on PyPI."""
    files = {f"{name}/version.py": b"x = '2.4.0'", f"{name}/__init__.py": b"y = '2.4.0'"}
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    before = {**files, f"{name}-1.0.dist-info/METADATA": about}[path] + b"+cpu"
    return pack(directory, files, name, recorded={path: before})


@pytest.mark.parametrize("path", [f"{IPEX}-1.0.dist-info/METADATA", f"{IPEX}/version.py"])
def test_files_of_ipex_that_were_edited_after_record_was_written_are_taken(tmp_path: Path, path: str) -> None:
    with archive.opened(edited(tmp_path, IPEX, path)) as opened:
        row, data = opened.expected("platlib", path), opened.read(path)

    assert row is not None and row.size == len(data)
    record.refuse_content(row, hashlib.sha256(data).digest())


@pytest.mark.parametrize(
    ("name", "path"),
    [(IPEX, f"{IPEX}/__init__.py"), ("thing", "thing-1.0.dist-info/METADATA"), ("thing", "thing/version.py")],
)
def test_no_other_file_may_differ_from_record(tmp_path: Path, name: str, path: str) -> None:
    assert f"another size of {path!r}" in refused(edited(tmp_path, name, path))
