"""Archives and directories of example scripts: what is taken of them, and what is refused."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard

from images.host.errors import UserFault, WorldFault
from images.layers import examples
from images.lock.lock import EXAMPLES
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.pip_config import Sources
from images.plan.planner import ARCHIVE
from images.store.blobs import sha256
from images.store.store import Store


def tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    return path


def obtain(tmp_path: Path, asked: object) -> tuple[str, Path]:
    """Bring examples into a store, with nothing to download from."""
    return examples.fetch_examples(Store(tmp_path / "store"), str(asked), Sources(), lambda _: None)


def fill(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    return directory


def test_a_path_that_leads_nowhere_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="no such file or directory") as caught:
        obtain(tmp_path, tmp_path / "none")
    assert caught.value.value == str(tmp_path / "none")


@pytest.mark.parametrize("top", ["", "./", "t-1/", "./t-1/"])
def test_of_an_archive_only_the_examples_are_taken(tmp_path: Path, top: str) -> None:
    path = tar(tmp_path / "a", *(f"{top}{name}" for name in ("examples/pytorch/a.py", "src/b.py", "LICENSE")))

    members = examples.members(obtain(tmp_path, path)[1])

    assert [name for name, _, _ in members] == ["examples/pytorch/a.py", "LICENSE"]


@pytest.mark.parametrize(
    "name", ["t-1/../../examples/c", "t-1/examples/../../../c", "/t-1/examples/c", "t-1/examples/.wh.a", "../examples"]
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = tar(tmp_path / "a", "t-1/examples/pytorch/a.py", name)

    with pytest.raises(WorldFault, match="cannot read the archive of the examples") as caught:
        list(examples.members(path))

    assert repr(name) in caught.value.value


def test_of_one_name_twice_the_later_is_taken_and_no_link(tmp_path: Path) -> None:
    names: dict[str, list[bytes | None]] = {
        "twice": [b"z", b"a"],
        "then-a-link": [b"x", None],
        "then-a-file": [None, b"y"],
    }
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, contents in names.items():
            for data in contents:
                info = tarfile.TarInfo(f"t-1/examples/{name}")
                info.type, info.linkname = (tarfile.SYMTYPE, "/etc/passwd") if data is None else (tarfile.REGTYPE, "")
                info.size = len(data or b"")
                archive.addfile(info, io.BytesIO(data or b""))
        for kind in (tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"t-1/examples/of-type-{kind.decode()}")
            info.type, info.linkname = kind, "t-1/examples/twice"
            archive.addfile(info)

    with LayerWriter(tmp_path / "layer", Directories()) as layer:
        examples.write_examples(layer, tmp_path / "a.tar")
        layer.finish()

    data = zstandard.ZstdDecompressor().stream_reader((tmp_path / "layer").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as written:
        files = {info.name: written.extractfile(info) for info in written if not info.isdir()}
        by_name = {name.rpartition("/")[2]: file.read() for name, file in files.items() if file}
    assert by_name == {"twice": b"a", "then-a-link": b"x", "then-a-file": b"y"}


def test_of_a_directory_only_the_examples_are_packed_the_same_way_twice(tmp_path: Path) -> None:
    """A clone of git has more, which may hold a password and changes by itself; links are left out, as in archives."""
    names = ("examples/pytorch/a.py", "LICENSE", ".git/config", "src/b.py", "examples/__pycache__/a.pyc", "examples.py")
    source = fill(tmp_path / "src", *names)
    (tmp_path / "private").write_text("a key")
    (source / "README.md").symlink_to("LICENSE")
    for name, target in {
        "out": str(tmp_path / "private"),
        "same": "a.py",
        "gone": "nowhere",
        "circle": "circle.py",
    }.items():
        (source / f"examples/pytorch/{name}.py").symlink_to(target)

    (source / "LICENSE").chmod(0o600)
    (source / "examples/pytorch/a.py").chmod(0o711)

    first = obtain(tmp_path, source)
    (source / "LICENSE").touch()

    with tarfile.open(first[1]) as archive:
        assert {info.name.rpartition("/")[2]: info.mode for info in archive} == {"a.py": 0o755, "LICENSE": 0o644}
        assert archive.getnames() == ["transformers/LICENSE", "transformers/examples/pytorch/a.py"]
    assert obtain(tmp_path, source) == first


def test_files_of_a_directory_are_packed_in_the_order_of_their_names(tmp_path: Path) -> None:
    """A file system lists them in an order of its own."""
    names = [f"examples/pytorch/{number:02}.py" for number in range(30)]
    source = fill(tmp_path / "src", "LICENSE", *names[::2], *names[1::2])

    with tarfile.open(obtain(tmp_path, source)[1]) as archive:
        assert archive.getnames() == ["transformers/LICENSE", *(f"transformers/{name}" for name in names)]


@pytest.mark.parametrize("name", ["src/b.py", "README.md", "examples/README.md", "examples/pytorch/README.md"])
def test_an_archive_of_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserFault, match="no examples there") as caught:
        obtain(tmp_path, tar(tmp_path / "a", f"t-1/{name}"))
    assert "examples/pytorch" in caught.value.remedy
    assert not list(tmp_path.rglob(EXAMPLES))


@pytest.mark.parametrize("name", ["d#1", "d?x", "d%41", "d [\u00e4"])
def test_a_path_is_no_address(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    path = tar(tmp_path / name / "ex.tar.gz", "t-1/examples/pytorch/a.py")

    assert obtain(tmp_path, path)[1].read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("url", "again"),
    [
        (ARCHIVE.format(version="5.8.1"), False),
        (ARCHIVE.format(version="5.8.1").replace("tags/v5.8.1", "heads/main"), True),
        ("https://host/main.tar.gz", True),
        (ARCHIVE.format(version="5.8.1") + "?v=2", True),
    ],
)
def test_only_the_archive_of_a_release_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, again: bool
) -> None:
    """The file behind any other address changes, as that of a branch; the lock was that of the first day for ever."""
    store, served = Store(tmp_path / "s"), tmp_path / "main.tar.gz"

    def fetched(store: Store, _url: str, _digest: None, name: str, *_: object) -> str:
        digest = sha256(served)
        with store.temporary() as aside:
            shutil.copyfile(served, aside)
            store.keep(aside, digest, name)
        return digest

    monkeypatch.setattr(examples, "download_file", fetched)
    tar(served, "t-1/examples/pytorch/a.py")
    first = examples.fetch_examples(store, url, Sources(), lambda _: None)
    tar(served, "t-1/examples/pytorch/b.py")
    second = examples.fetch_examples(store, url, Sources(), lambda _: None)

    assert (first != second) is again


def test_what_is_not_downloaded_and_a_directory_that_goes_away_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise WorldFault("cannot download", "https://host/a.tar.gz (404)", "the network")

    monkeypatch.setattr(examples, "download_file", fail)
    with pytest.raises(WorldFault, match=r"cannot download the examples: https://host/a.tar.gz \(404\)") as caught:
        obtain(tmp_path, "https://host/a.tar.gz")
    assert caught.value.remedy == "--examples PATH with a copy of the archive, or --examples none"
    with pytest.raises(FileNotFoundError):
        examples._taken(tmp_path / "none")


@pytest.mark.parametrize("cut", [20, 60])
def test_a_truncated_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = tar(tmp_path / "a", *(f"t-1/src/{number}" for number in range(50)))
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(WorldFault, match="cannot read the archive"):
        list(examples.members(path))
