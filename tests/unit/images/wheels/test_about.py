"""What a wheel says of itself: which modules are at its top, and what is kept of its METADATA."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.store import Store
from images.wheels.about import about

DIGEST = "0" * 64
METADATA = "Metadata-Version: 2.1\nName: A.b\nVersion: 1.0\nAuthor: x\n\nVersion: 2\nThe whole README."


def wheel(directory: Path, files: Mapping[str, str]) -> Path:
    path = directory / "a_b-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("one/__init__.py", "one"), ("two.py", "two"), ("three.cpython-311-x86_64-linux-gnu.so", "three"),
        ("one/part.py", None), ("four/data.py", None), ("a_b-1.0.dist-info/RECORD", None), ("not-a-name.py", None),
        ("a_b-1.0.data/scripts/six", None), ("a-b/__init__.py", None), ("data.json", None),
    ],
)  # fmt: skip
def test_modules_are_those_at_the_top(tmp_path: Path, path: str, module: str | None) -> None:
    path_of_wheel = wheel(tmp_path, {"zero.py": "", path: ""})

    assert about(Store(tmp_path), DIGEST, path_of_wheel).modules == sorted(filter(None, (module, "zero")))


@pytest.mark.parametrize(
    ("files", "metadata"),
    [
        ({"a_b-1.0.dist-info/METADATA": METADATA}, {"name": "A.b", "version": "1.0"}),
        ({"vendored/c-1.dist-info/METADATA": METADATA}, {}),
        ({}, {}),
    ],
)
def test_of_metadata_a_few_fields_are_kept(
    tmp_path: Path, files: Mapping[str, str], metadata: Mapping[str, str]
) -> None:
    assert about(Store(tmp_path), DIGEST, wheel(tmp_path, files)).metadata == metadata


def test_a_wheel_is_opened_once(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a_b-1.0.dist-info/METADATA": METADATA, "a_b.py": ""})
    first = about(Store(tmp_path), DIGEST, path)
    path.unlink()

    assert about(Store(tmp_path), DIGEST, path) == first


@pytest.mark.parametrize("data", [b"PK not really", None])
def test_a_file_that_is_no_wheel_is_said_to_be_none(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    if data:
        path.write_bytes(data)

    with pytest.raises(WorldFault, match=r"cannot read a wheel: thing-1.0") as raised:
        about(Store(tmp_path), DIGEST, path)

    assert raised.value.remedy
