"""Two images compared: the first thing that differs is named."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from images.inspection import verify
from images.inspection.opened import Inside
from images.oci.image import Image
from images.oci.layer import Part, Written

Files = dict[str, str]


def layer(path: Path, files: Files, mode: int = 0o644) -> str:
    with tarfile.open(path, "w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(text)
            if text.startswith("->"):
                info.type, info.linkname, info.size = tarfile.SYMTYPE, text[2:], 0
            tar.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compared(tmp_path: Path, theirs: list[Files], ours: list[Files], mode: int = 0o644) -> verify.Difference | None:
    left = [tmp_path / f"theirs{n}" for n in range(len(theirs))]
    right = [tmp_path / f"ours{n}" for n in range(len(ours))]
    ids = [f"sha256:{layer(path, files, mode)}" for path, files in zip(left, theirs, strict=True)]
    mine = [layer(path, files) for path, files in zip(right, ours, strict=True)]
    parts = tuple(Part(f"part {n}", Written(each, each, 1, 1), reused=True) for n, each in enumerate(mine))
    inside = Inside("x", {"rootfs": {"diff_ids": ids}}, tuple(left))
    return verify.compare(inside, Image(("x",), b"", b"", parts), right)


SAME: Files = {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("theirs", "ours", "place"),
    [
        ([SAME, {"a": "1", "b": "3"}], [SAME, SAME], ("part 1", "b")),
        ([{"a": "1"}], [SAME], ("part 0", "b")),
        ([{**SAME, "c": "more"}], [SAME], ("part 0", "c")),
        ([{"a": "->x", "b": "2"}], [SAME], ("part 0", "a")),
        ([{"b": "2", "a": "1"}], [SAME], ("part 0", "b")),
        ([SAME, SAME], [SAME], ("above ours", "")),
        ([SAME], [SAME, SAME], ("part 1", "")),
    ],
)
def test_the_first_difference_is_named(
    tmp_path: Path, theirs: list[Files], ours: list[Files], place: tuple[str, str]
) -> None:
    found = compared(tmp_path, theirs, ours)

    assert found is not None
    assert (found.layer, found.path) == place


def test_both_hashes_are_told(tmp_path: Path) -> None:
    found = compared(tmp_path, [{"a": "1", "b": "3"}], [SAME])

    assert found is not None
    assert hashlib.sha256(b"3").hexdigest() in found.image
    assert hashlib.sha256(b"2").hexdigest() in found.rebuilt


def test_a_mode_is_a_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, [SAME], [SAME], mode=0o755)

    assert found is not None
    assert "mode 755" in found.image


def test_equal_images_are_equal(tmp_path: Path) -> None:
    assert compared(tmp_path, [SAME, SAME], [SAME, SAME]) is None
