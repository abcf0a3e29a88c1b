"""Wheels made here -> files as pip would lay them out, with a RECORD that is true."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard

from images.base.base import of_debian
from images.host.errors import WorldFault
from images.layers import oneccl
from images.layers import wheel as wheels
from images.oci.layer import Directories, Layer

SITE = "usr/local/lib/python3.11/dist-packages"


def make_wheel(folder: Path, files: Mapping[str, bytes], name: str = "thing") -> Path:
    info = f"{name}-1.0.dist-info"
    every = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in every.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if member.endswith(".sh") else 0o100644) << 16
            archive.writestr(entry, data)
        archive.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in [*every, f"{info}/RECORD"]))
    return path


def lay_out(
    tmp_path: Path, wheel: Path, pyc: Mapping[str, bytes], *, trimmed: bool = True
) -> dict[str, tuple[int, bytes]]:
    with Layer(tmp_path / "layer", Directories()) as layer:
        wheels.write(layer, wheel, of_debian("3.11"), pyc, {}, trimmed=trimmed)
        layer.finish()
    data = zstandard.ZstdDecompressor().stream_reader((tmp_path / "layer").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        opened = {info.name: (info.mode, tar.extractfile(info.name)) for info in tar if not info.isdir()}
        return {name: (mode, file.read()) for name, (mode, file) in opened.items() if file}


def test_every_scheme_goes_where_debians_pip_puts_it(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        {
            "thing/__init__.py": b"x = 1\n",
            "thing-1.0.data/data/lib/libthing.so": b"\x7fELF",
            "thing-1.0.data/scripts/run.sh": b"#!python\nprint(1)\n",
            "thing-1.0.data/headers/thing.h": b"int x;",
            "thing-1.0.dist-info/entry_points.txt": b"[console_scripts]\nthing = thing:main\n",
        },
    )

    files = lay_out(tmp_path, wheel, {"thing/__init__.py": b"compiled"})

    assert files[f"{SITE}/thing/__init__.py"] == (0o644, b"x = 1\n")
    assert files[f"{SITE}/thing/__pycache__/__init__.cpython-311.pyc"] == (0o644, b"compiled")
    assert files["usr/local/lib/libthing.so"] == (0o644, b"\x7fELF")
    assert files["usr/local/bin/run.sh"] == (0o755, b"#!/usr/bin/python3\nprint(1)\n")
    assert files["usr/local/include/python3.11/thing/thing.h"] == (0o644, b"int x;")
    assert files["usr/local/bin/thing"][0] == 0o755
    assert files["usr/local/bin/thing"][1].startswith(b"#!/usr/bin/python3\n")
    assert files[f"{SITE}/thing-1.0.dist-info/INSTALLER"][1] == b"multinode\n"


def test_record_names_every_file_with_its_hash_and_nothing_else(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {"torch/test/big": b"1", "torch/a.py": b"2", "torch-1.0.data/data/x": b"3"}, "torch")

    files = lay_out(tmp_path, wheel, {"torch/a.py": b"pyc"})

    rows = {row[0]: row[1:] for row in csv.reader(files[f"{SITE}/torch-1.0.dist-info/RECORD"][1].decode().splitlines())}
    paths = {"../../../x": "usr/local/x"}
    assert f"{SITE}/torch/test/big" not in files
    assert {paths.get(name, f"{SITE}/{name}") for name in rows} == files.keys()
    assert rows["torch/__pycache__/a.cpython-311.pyc"] == ["", ""]
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"2").digest()).decode().rstrip("=")
    assert rows["torch/a.py"] == [f"sha256={digest}", "1"]


def test_a_file_that_another_package_has_is_a_link_and_record_says_what_is_read_there(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {"thing/lib/libx.so": b"of thing", "thing/lib/liby.so": b"y"})
    twin = oneccl.Twin("other/lib/libx.so", hashlib.sha256(b"of other").hexdigest(), 8)
    with Layer(tmp_path / "layer", Directories()) as layer:
        wheels.write(layer, wheel, of_debian("3.11"), {}, {"thing/lib/libx.so": twin}, trimmed=True)
        layer.finish()

    data = zstandard.ZstdDecompressor().stream_reader((tmp_path / "layer").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        link = tar.getmember(f"{SITE}/thing/lib/libx.so")
        record = tar.extractfile(f"{SITE}/thing-1.0.dist-info/RECORD")
        assert record
        rows = {row[0]: row[1:] for row in csv.reader(record.read().decode().splitlines())}
        assert tar.getmember(f"{SITE}/thing/lib/liby.so").isreg()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"of other").digest()).decode().rstrip("=")
    assert (link.issym(), link.linkname) == (True, "../../other/lib/libx.so")
    assert rows["thing/lib/libx.so"] == [f"sha256={digest}", "8"]


def test_no_trim_keeps_everything(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {"torch/test/big": b"1"}, "torch")

    assert f"{SITE}/torch/test/big" in lay_out(tmp_path, wheel, {}, trimmed=False)


def test_a_file_that_is_no_wheel_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(b"PK not really")

    with pytest.raises(WorldFault, match=r"cannot install a wheel: thing-1.0"):
        lay_out(tmp_path, path, {})
