"""Archives that would fill the memory or never end are refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from images.foreign import tars
from images.host import limits
from images.host.limits import Bound


def tar(*infos: tarfile.TarInfo) -> bytes:
    """Return a tar whose members are empty, whatever they say."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for info in infos:
            size, info.size = info.size, 0
            file.addfile(info)
            info.size = size
    return out.getvalue()


def read(path: Path) -> list[tars.ArchiveFile]:
    return list(tars.read_files(path, lambda name: True))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_every_compression_is_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a"
    path.write_bytes(compress(tar(tarfile.TarInfo("./top/a"), tarfile.TarInfo("top/b/c"))))

    assert read(path) == [("a", b"", 0o644), ("b/c", b"", 0o644)]


@pytest.mark.parametrize(
    ("bare", "found"), [(True, ["a", "a/b", "a/c"]), (False, ["a/c"])], ids=["with and without", "with"]
)
def test_an_archive_may_be_read_that_has_no_top_directory(tmp_path: Path, bare: bool, found: list[str]) -> None:
    names = ("./a", "a/b", "top/a/c", "b")
    (tmp_path / "t").write_bytes(tar(*map(tarfile.TarInfo, names)))

    taken = tars.read_files(tmp_path / "t", lambda name: f"{name}/".startswith("a/"), bare=bare)

    assert [member.path for member in taken] == found


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_bomb_is_neither_read_nor_skipped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes, asked: bool
) -> None:
    monkeypatch.setattr(limits, "WHEEL", Bound(30, 4 << 20))
    info = tarfile.TarInfo("top/a")
    info.type, info.size = kind, 10 * limits.WHEEL.least
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(10):
            file.write(bytes(limits.WHEEL.least // 8))

    tracemalloc.start()
    with pytest.raises(ValueError, match="unpacks to more than" if kind == tarfile.REGTYPE else "a header says"):
        list(tars.read_files(path, lambda _: asked))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2 * limits.WHEEL.least
