"""Wheels made here -> files as pip would lay them out, with a RECORD that is true."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard

from images.base.inspect import debian_site
from images.content import Content
from images.host.errors import WorldFault
from images.layers import trim
from images.layers import wheel as wheels
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.store.store import Store
from images.wheels.content import read_content
from tests.support.wheels import pack

SITE = "usr/local/lib/python3.11/dist-packages"
CONTENT = Content()


def lay_out(
    tmp_path: Path, wheel: Path, pyc: Mapping[str, bytes], *, trimmed: bool = True
) -> dict[str, tuple[int, bytes]]:
    with LayerWriter(tmp_path / "layer", Directories()) as layer:
        wheels.write_wheel(layer, wheel, debian_site("3.11"), parts(wheel, pyc, Content(trim=trimmed)))
        layer.finish()
    return opened(tmp_path / "layer")


def parts(wheel: Path, pyc: Mapping[str, bytes] | None = None, options: Content = CONTENT) -> wheels.Parts:
    """Return what goes into a layer with a wheel that has just arrived."""
    read_content(Store(wheel.parent / "store"), wheel.name, wheel)
    return wheels.Parts(pyc or {}, {}, trim.trimmed_pattern(wheel.name.partition("-")[0], options))


def opened(layer: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of every file in a layer, which has each path once."""
    data = zstandard.ZstdDecompressor().stream_reader(layer.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        infos = tar.getmembers()
        assert len({info.name for info in infos}) == len(infos)
        files = {info.name: (info.mode, tar.extractfile(info.name)) for info in infos if not info.isdir()}
        return {name: (mode, file.read()) for name, (mode, file) in files.items() if file}


@pytest.mark.parametrize("size", [100_000, 5 << 20])
def test_a_file_whose_hash_in_record_is_another_than_sha256_is_written_whole(tmp_path: Path, size: int) -> None:
    data = b"\x7fELF" + bytes(size)
    wheel = pack(tmp_path, {"torch/lib/a.so": data}, "torch", algorithm="sha512")

    assert lay_out(tmp_path, wheel, {})[f"{SITE}/torch/lib/a.so"][1] == data


@pytest.mark.parametrize(
    "files",
    [
        *({"thing-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{name} = a:b\n".encode()}
          for name in ("../sbin/sshd", "/usr/sbin/sshd", "..", ".wh.sh")),
        {"thing.py": b"1", "thing-1.0.data/platlib/thing.py": b"2"},
    ],
)  # fmt: skip
def test_a_file_goes_nowhere_else_and_to_no_place_of_another(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    with pytest.raises(WorldFault, match=r"a path cannot be in a layer|two different files have one path") as caught:
        lay_out(tmp_path, pack(tmp_path, files), {})

    assert "thing-1.0-py3-none-any.whl" in caught.value.value


def test_the_wheels_own_installer_is_not_taken(tmp_path: Path) -> None:
    files = lay_out(tmp_path, pack(tmp_path, {"thing-1.0.dist-info/INSTALLER": b"pip\n"}), {})

    assert files[f"{SITE}/thing-1.0.dist-info/INSTALLER"][1] == b"multinode\n"
    assert files[f"{SITE}/thing-1.0.dist-info/RECORD"][1].count(b"INSTALLER") == 1


def together(tmp_path: Path, *wheels_: Path) -> dict[str, tuple[int, bytes]]:
    """Install wheels into one layer, and read it back."""
    with LayerWriter(tmp_path / "layer", Directories()) as layer:
        for wheel in wheels_:
            wheels.write_wheel(layer, wheel, debian_site("3.11"), parts(wheel))
        layer.finish()
    return opened(tmp_path / "layer")


def test_two_wheels_with_different_files_at_one_path_are_named(tmp_path: Path) -> None:
    paths = [
        pack(tmp_path, {"both/LICENSE": b"Apache"}, "aaa"),
        pack(tmp_path, {"both/LICENSE": b"MIT"}, "bbb"),
        pack(tmp_path, {"ccc/LICENSE": b"Apache"}, "ccc"),
    ]

    with pytest.raises(WorldFault, match="two different files have one path") as caught:
        together(tmp_path, *paths)

    assert caught.value.value == f"/{SITE}/both/LICENSE ({paths[0].name} and {paths[1].name})"


@pytest.mark.parametrize("files", [{"a": b"a file"}, {"a/b/c": b"below a file"}])
def test_a_file_and_a_directory_at_one_path_are_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    with pytest.raises(WorldFault, match="two different files have one path"):
        together(tmp_path, pack(tmp_path, {"a/b": b"x"}, "aaa"), pack(tmp_path, files, "bbb"))


def test_equal_files_at_one_path_are_one_file(tmp_path: Path) -> None:
    same = {"tests/__init__.py": b"# same\n"}
    files = together(tmp_path, pack(tmp_path, same, "aaa"), pack(tmp_path, same, "bbb"))

    assert files[f"{SITE}/tests/__init__.py"][1] == b"# same\n"
    assert all(b"tests/__init__.py" in files[f"{SITE}/{name}-1.0.dist-info/RECORD"][1] for name in ("aaa", "bbb"))


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "pyproject.toml", "CHANGES"])
def test_of_two_files_at_the_top_that_nothing_imports_the_first_stays(tmp_path: Path, name: str) -> None:
    files = together(tmp_path, pack(tmp_path, {name: b"1"}, "aaa"), pack(tmp_path, {name: b"2"}, "bbb"))

    assert files[f"{SITE}/{name}"][1] == b"1"
    records = {project: files[f"{SITE}/{project}-1.0.dist-info/RECORD"][1] for project in ("aaa", "bbb")}
    assert [project for project, record in records.items() if name.encode() in record] == ["aaa"]


@pytest.mark.parametrize(
    "name", ["both.py", "both.pth", "both.so", "both.abi3.so", "both.cpython-311-x86_64-linux-gnu.so"]
)
def test_of_two_modules_at_the_top_none_is_chosen(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorldFault, match="two different files have one path"):
        together(tmp_path, pack(tmp_path, {name: b"1"}, "aaa"), pack(tmp_path, {name: b"2"}, "bbb"))


STARTS = {"thing-1.0.dist-info/entry_points.txt": b"[console_scripts]\ntwice = thing:main\n"}


@pytest.mark.parametrize("path", ["scripts/twice", "data/bin/twice"])
def test_an_entry_point_wins_over_a_program_of_its_name(tmp_path: Path, path: str) -> None:
    files = lay_out(tmp_path, pack(tmp_path, {**STARTS, f"thing-1.0.data/{path}": b"#!python\nprint(1)\n"}), {})

    assert b"from thing import main" in files["usr/local/bin/twice"][1]
    record = files[f"{SITE}/thing-1.0.dist-info/RECORD"][1]
    assert record.count(b"bin/twice,") == 1


def test_a_program_of_another_name_stays_beside_an_entry_point(tmp_path: Path) -> None:
    files = lay_out(tmp_path, pack(tmp_path, {**STARTS, "thing-1.0.data/scripts/once": b"#!python\n"}), {})

    assert {"usr/local/bin/once", "usr/local/bin/twice"} <= files.keys()


def test_two_files_of_one_wheel_have_a_remedy_for_one(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="two different files") as caught:
        lay_out(tmp_path, pack(tmp_path, {"thing.py": b"1", "thing-1.0.data/platlib/thing.py": b"2"}), {})

    assert caught.value.remedy == "another release, or a --wheelhouse with that wheel repaired"
