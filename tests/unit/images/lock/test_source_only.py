"""A source archive made here -> a wheel, without running anything of it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.lock.collect import to_wheel
from images.plan.plan import SourceOnly
from images.store.blobs import sha256
from images.store.store import Store

ROW = SourceOnly(name="rouge-score", version="0.1.2", requires=("numpy", "six>=1.14.0"))
FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: rouge-score\nVersion: 0.1.2\nRequires-Dist: wrong\n\nAbout it.\n",
    "setup.py": b"raise SystemExit('nobody may run this')\n",
    "rouge_score/__init__.py": b"",
    "rouge_score/rouge.py": b"x = 1\n",
    "tests/test_rouge.py": b"",
}


def archive(directory: Path, files: dict[str, bytes]) -> Path:
    path = directory / "rouge_score-0.1.2.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"rouge_score-0.1.2/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_an_archive_without_the_package_is_refused(tmp_path: Path) -> None:
    source = archive(tmp_path, {"PKG-INFO": FILES["PKG-INFO"], "other/__init__.py": b""})

    with pytest.raises(WorldFault, match="no package of its name"):
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)


@pytest.mark.parametrize(
    ("files", "fact"),
    [
        ({"rouge_score/__init__.py": b""}, "no metadata"),
        ({"PKG-INFO": b"\xff", "rouge_score/__init__.py": b""}, "cannot read"),
        ({**FILES, "rouge_score/../../../etc/passwd": b""}, "cannot read .*leaves its directory"),
        ({**FILES, "rouge_score/.wh.a": b""}, "cannot read .*'rouge_score-0.1.2/rouge_score/.wh.a' would hide"),
    ],
)
def test_an_archive_that_is_not_in_order_is_refused(tmp_path: Path, files: dict[str, bytes], fact: str) -> None:
    source = archive(tmp_path, files)

    with pytest.raises(WorldFault, match=rf"{fact}.*") as caught:
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)

    assert source.name in caught.value.value


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b damaged", b"BZh damaged", b"\xfd7zXZ\0 damaged"])
def test_bytes_that_are_no_archive_are_refused(tmp_path: Path, data: bytes) -> None:
    source = tmp_path / "rouge_score-0.1.2.tar.gz"
    source.write_bytes(data)

    with pytest.raises(WorldFault, match=r"a source archive.* rouge_score"):
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)
